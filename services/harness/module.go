package harness

import (
	"kaged.dev/pkg/host"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Module is the harness as a module of a process.
//
// The Run stream carries each delta of each model, so within one process the harness is called directly.
var Module = host.Module{
	Name: "harness", Defaults: DefaultConfig(),
	Needs: []string{"tool-runner"}, Direct: true, New: newModule,
}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	return New(cfg, Deps{
		Log: env.Log, Telemetry: env.Telemetry, CagesOnly: env.System().Enabled && !env.System().AllowUncaged,
		ToolRunner: func(workspace string) (toolrunnerv1.ToolRunnerServiceClient, error) {
			conn, err := env.DialWorkspace(workspace)
			if err != nil {
				return nil, err
			}
			return toolrunnerv1.NewToolRunnerServiceClient(conn), nil
		},
	})
}
