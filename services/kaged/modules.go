// Package kaged is the kaged command. This package has the list of its services; internal/daemon runs them, and
// internal/cli has the command line.
package kaged

import (
	"kaged.dev/pkg/host"
	dappool "kaged.dev/services/dap-pool"
	"kaged.dev/services/gateway"
	"kaged.dev/services/harness"
	"kaged.dev/services/issue"
	"kaged.dev/services/kaged/internal/cli"
	lsppool "kaged.dev/services/lsp-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	sessionmanager "kaged.dev/services/session-manager"
	toolrunner "kaged.dev/services/tool-runner"
)

// Main runs the command line of the process and returns its exit code.
func Main() int { return cli.Main(Modules()) }

// Modules returns every service in the order of the reference page. The host sorts them by their needs.
func Modules() []host.Module {
	return []host.Module{
		gateway.Module,
		sessionmanager.Module,
		harness.Module,
		issue.Module,
		toolrunner.Module,
		dappool.Module,
		lsppool.Module,
		sandboxsupervisor.Module,
	}
}
