package sandboxsupervisor

import (
	"os"
	"strings"

	"kaged.dev/pkg/host"
)

// Module is the sandbox supervisor as a process may run it.
var Module = host.Module{Name: "sandbox-supervisor", Defaults: DefaultConfig(), Direct: true, New: newModule}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	deps := Deps{
		Log: env.Log, DataDir: env.DataDir, Node: env.Node, Instance: env.Instance, NoSandbox: env.NoSandbox,
		Lazy:      env.Private,
		Forbidden: env.Own, Telemetry: env.Telemetry,
		// in a container the compose file decides, and operators rarely run doctor first
		TryCage: os.Getenv("KAGED_CONTAINER") != "" && !env.Private,
	}
	if !env.DataDir.IsZero() && !env.Private {
		deps.Lock = env.DataDir.Join("run", "sandbox-supervisor.lock")
	}
	if path, isUnix := strings.CutPrefix(env.Address(), "unix:"); isUnix {
		deps.Socket = path + ".files" // in the folder that callers of other containers see
	}
	return New(cfg, deps)
}
