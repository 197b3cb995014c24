package toolrunner

import (
	"kaged.dev/pkg/host"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Module is the tool runner as a part of a process.
var Module = host.Module{
	Name: "tool-runner", Defaults: DefaultConfig(),
	Needs: []string{"issue", "lsp-pool", "dap-pool", "sandbox-supervisor"}, Direct: true, New: newModule,
	Files: []host.OperatorFile{{Key: "tools_file", Default: defaultToolsFile}},
}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	declared, err := readToolsFile(cfg.ToolsFile, env.ConfigPath.String())
	if err != nil {
		return nil, err
	}
	deps := Deps{
		Log:       env.Log,
		Tools:     declared,
		NoSandbox: env.NoSandbox,
		CagesOnly: env.System().Enabled && !env.System().AllowUncaged, ProjectsRoot: env.System().Root(),
		Sandbox:   sandboxsupervisorv1.NewSandboxServiceClient(env.Dial("sandbox-supervisor")),
		LSP:       lsppoolv1.NewLSPPoolServiceClient(env.Dial("lsp-pool")),
		DAP:       dappoolv1.NewDAPPoolServiceClient(env.Dial("dap-pool")),
		Forbidden: env.Own,
	}
	if !env.Private { // a process for one command has no issues
		deps.Issues = issuev1.NewIssueToolServiceClient(env.Dial("issue"))
	}
	if !env.DataDir.IsZero() {
		deps.Journal = env.DataDir.Join("tool-runner", "journal")
		deps.Memory = env.DataDir.Join("repositories")
	}
	if !env.DataDir.IsZero() && !env.Private { // in a process for one command the background processes end with it
		deps.Processes = env.DataDir.Join("tool-runner", "processes")
		deps.Records = env.DataDir.Join("tool-runner", "records.json")
		deps.Images = env.DataDir.Join("tool-runner", "changes")
	}
	return New(cfg, deps)
}
