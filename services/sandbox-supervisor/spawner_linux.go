package sandboxsupervisor

import (
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/shimhost"
)

// newSpawner returns this machine's spawner: a shim.
func newSpawner(cfg Config, deps Deps) spawner {
	return shimhost.New(shimhost.Options{
		Log: deps.Log, Node: deps.Node, Instance: deps.Instance, Lock: deps.Lock, Lazy: deps.Lazy,
		Cgroups:      cfg.Cgroups == "auto",
		Program:      box.Program,
		StartTimeout: cfg.StartTimeout.D(), KillTimeout: cfg.KillTimeout.D(), DrainWait: cfg.DrainWait.D(),
	})
}
