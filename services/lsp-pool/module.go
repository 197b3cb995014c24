package lsppool

import (
	"os"

	"kaged.dev/pkg/host"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Module is the pool of language servers as a part of a process.
var Module = host.Module{
	Name: "lsp-pool", Defaults: DefaultConfig(),
	Needs: []string{"sandbox-supervisor"}, Direct: true, New: newModule,
}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	records := ""
	if !env.DataDir.IsZero() && !env.Private { // a process for one command has no audit
		records = env.DataDir.Join("lsp-pool", "records.json")
	}
	return New(cfg, Deps{
		Records: records,
		Log:     env.Log, Servers: env.File.LSP.Servers, LookupEnv: os.LookupEnv, NoSandbox: env.NoSandbox,
		Sandbox: sandboxsupervisorv1.NewSandboxServiceClient(env.Dial("sandbox-supervisor")),
	})
}
