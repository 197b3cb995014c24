package sessionmanager

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/version"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
)

// Module is session-manager for the host of services.
var Module = host.Module{
	Name: "session-manager", Defaults: DefaultConfig(),
	Needs: []string{"harness", "issue", "tool-runner"}, New: newModule,
	Schema: host.Schema{Name: migrations.Schema, Files: migrations.Files},
}

func newModule(env *host.Env) (host.Service, error) {
	cfg := defaults(env)
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	if err := env.Database.Named(); err != nil {
		return nil, err
	}
	if err := env.NATS.Named(); err != nil {
		return nil, err
	}
	return New(cfg, Deps{
		Log:         env.Log,
		Version:     env.Version,
		Build:       version.Full(),
		NoSandbox:   env.NoSandbox,
		Self:        lease.Holder{Instance: env.Instance, Node: env.Node, Address: env.Address()},
		DatabaseURL: env.Database.OwnerURL,
		AppURL:      env.Database.URL,
		Sparing:     env.Database.Embedded,
		NATS: bus.Config{
			URL: env.NATS.URL, InProcess: env.NATS.InProcess, User: "session-manager", Files: bus.Files(env.NATS.Files),
			Name: "session-manager " + env.Instance, Log: env.Log,
		},
		System:     env.System(),
		Workspaces: workspaces(env),
		Harness:    env.Dial("harness"),
		Issue:      env.Dial("issue"),
		ToolRunner: env.DialWorkspace,
		DialAddress: func(address string) (grpc.ClientConnInterface, error) {
			return env.DialAddress("session-manager", address)
		},
		LocalConfig: env.ConfigPath.String(),
		Telemetry:   env.Telemetry,
	})
}

// defaults returns the defaults in the environment of the process.
func defaults(env *host.Env) Config {
	cfg := DefaultConfig()
	cfg.Operators.RotateSecrets = env.NATS.InProcess != nil
	if env.Database.Embedded {
		cfg.DatabaseConns = embeddedConns
	}
	return cfg
}

// workspaces returns the names of the configured workspaces.
func workspaces(env *host.Env) (names []string) {
	for _, w := range env.File.Workspaces {
		names = append(names, w.Name)
	}
	return names
}
