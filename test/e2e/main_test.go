package e2e_test

import (
	"testing"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/kaged"
	"kaged.dev/services/sandbox-supervisor/shim"
	"kaged.dev/test/e2e/kagedtest"
)

// TestMain makes this binary run any of kaged's commands: the tests start it again under their names.
func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	commands := map[string]func() int{"kaged": kaged.Main}
	for _, module := range kaged.Modules() {
		commands[module.Name] = func() int { host.Main(module); return 0 }
	}
	kagedtest.Main(m, commands)
}

// databaseEnv gives a daemon a database of the shared test server, so that it needs no cluster of its own. Its schemas
// are migrated and empty.
func databaseEnv(t *testing.T) []string {
	owner, app := kagedtest.Database(t, kaged.Modules())
	return []string{"KAGED_DATABASE_URL=" + owner, "KAGED_DATABASE_APP_URL=" + app}
}

// emptyDatabaseEnv is databaseEnv with an empty database, for a test of migrations.
func emptyDatabaseEnv(t *testing.T) []string {
	owner, app := pgtest.URLs(t)
	return []string{"KAGED_DATABASE_URL=" + owner, "KAGED_DATABASE_APP_URL=" + app}
}
