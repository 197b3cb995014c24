package issue

import "kaged.dev/pkg/host"

// Module is the issue service as a process may run it. It calls no other service.
var Module = host.Module{Name: "issue", New: newModule}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	if err := env.Database.Named(); err != nil {
		return nil, err
	}
	return New(cfg, Deps{Log: env.Log, DatabaseURL: env.Database.OwnerURL, AppURL: env.Database.URL})
}
