package sandboxsupervisor

import (
	"path/filepath"

	"kaged.dev/pkg/host"
)

// Module is the sandbox supervisor as a process may run it.
var Module = host.Module{Name: "sandbox-supervisor", New: newModule}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	deps := Deps{
		Log: env.Log, DataDir: env.DataDir, Node: env.Node, Instance: env.Instance, NoSandbox: env.NoSandbox, Lazy: env.Private,
	}
	for _, path := range []string{env.DataDir, env.ConfigPath} {
		if path != "" {
			deps.Forbidden = append(deps.Forbidden, path)
		}
	}
	if env.DataDir != "" && !env.Private {
		deps.Lock = filepath.Join(env.DataDir, "run", "sandbox-supervisor.lock")
	}
	return New(cfg, deps)
}
