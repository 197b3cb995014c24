package issue

import (
	"time"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/host"
	"kaged.dev/services/issue/internal/database/migrations"
)

// Module is the issue service as a part of a process. It calls no other service.
var Module = host.Module{
	Name: "issue", Defaults: DefaultConfig(), New: newModule,
	Schema: host.Schema{Name: migrations.Schema, Files: migrations.Files},
}

// embeddedIdle is [Deps.Idle] for an embedded Postgres, where each connection takes 17 MB.
const embeddedIdle = time.Second

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	if err := env.Database.Named(); err != nil {
		return nil, err
	}
	deps := Deps{Log: env.Log, DatabaseURL: env.Database.OwnerURL, AppURL: env.Database.URL, Shared: env.System().Enabled}
	if env.Database.Embedded {
		deps.Idle = embeddedIdle
	}
	if err := env.NATS.Named(); err != nil {
		env.Log.Warn("sessions are not told of changed issues", "error", err)
	} else {
		deps.NATS = &bus.Config{
			URL: env.NATS.URL, InProcess: env.NATS.InProcess, User: "issue", Files: bus.Files(env.NATS.Files),
			Name: "issue " + env.Instance, Log: env.Log,
		}
	}
	return New(cfg, deps)
}
