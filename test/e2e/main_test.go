package e2e_test

import (
	"testing"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit/pgtest"
	dappool "kaged.dev/services/dap-pool"
	"kaged.dev/services/gateway"
	"kaged.dev/services/harness"
	"kaged.dev/services/issue"
	"kaged.dev/services/kaged"
	lsppool "kaged.dev/services/lsp-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	"kaged.dev/services/sandbox-supervisor/shim"
	sessionmanager "kaged.dev/services/session-manager"
	toolrunner "kaged.dev/services/tool-runner"
	"kaged.dev/test/e2e/kagedtest"
)

// TestMain makes this binary run any of kaged's commands: the tests start it again under their names.
func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	service := func(module host.Module) func() int {
		return func() int { host.Main(module); return 0 }
	}
	kagedtest.Main(m, map[string]func() int{
		"kaged":              kaged.Main,
		"gateway":            service(gateway.Module),
		"session-manager":    service(sessionmanager.Module),
		"harness":            service(harness.Module),
		"issue":              service(issue.Module),
		"tool-runner":        service(toolrunner.Module),
		"lsp-pool":           service(lsppool.Module),
		"dap-pool":           service(dappool.Module),
		"sandbox-supervisor": service(sandboxsupervisor.Module),
	})
}

// databaseEnv gives a daemon an empty database of the shared test server, so that it needs no cluster of its own.
func databaseEnv(t *testing.T) []string {
	owner, app := pgtest.URLs(t)
	return []string{"KAGED_DATABASE_URL=" + owner, "KAGED_DATABASE_APP_URL=" + app}
}
