package dappool

import (
	"kaged.dev/pkg/host"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Module is the pool of debug sessions as a part of a process.
var Module = host.Module{
	Name: "dap-pool", Defaults: DefaultConfig(),
	Needs: []string{"sandbox-supervisor"}, Direct: true, New: newModule,
}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	return New(cfg, Deps{
		Log: env.Log, NoSandbox: env.NoSandbox, Adapters: env.File.DAP.Adapters,
		Sandbox: sandboxsupervisorv1.NewSandboxServiceClient(env.Dial("sandbox-supervisor")),
	})
}
