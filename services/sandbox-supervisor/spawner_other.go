//go:build !linux

package sandboxsupervisor

import "kaged.dev/services/sandbox-supervisor/internal/adapter/group"

// newSpawner returns this machine's spawner: process groups, which promise less than a shim.
func newSpawner(cfg Config, _ Deps) spawner { return group.New(cfg.DrainWait.D()) }
