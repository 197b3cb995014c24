package gateway

import (
	"cmp"
	"os/user"
	"strings"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/host"
	"kaged.dev/proto/gen/backends"
)

// Module is the gateway as a module of a kaged process.
var Module = host.Module{Name: "gateway", Defaults: DefaultConfig(), Needs: needs(), New: newModule}

// needs returns the modules that the gateway calls: those that answer routes of the contract, and
// sandbox-supervisor.
func needs() (modules []string) {
	for _, b := range backends.All() {
		modules = append(modules, b.Module)
	}
	return append(modules, "sandbox-supervisor") // serves the terminals of background processes
}

func newModule(env *host.Env) (host.Service, error) {
	cfg := DefaultConfig()
	if err := env.Config(&cfg); err != nil {
		return nil, err
	}
	if err := env.NATS.Named(); err != nil {
		return nil, err
	}
	if err := host.CheckInsecure(env.Listen, env.Insecure, env.InsecureAnywhere); err != nil {
		return nil, err
	}
	if err := readNonce(&cfg, env.ConfigPath.String()); err != nil {
		return nil, err
	}
	return New(cfg, Deps{
		System:        env.System(),
		Log:           env.Log,
		Version:       env.Version,
		Listen:        env.Listen,
		UIURL:         env.UIURL,
		Insecure:      env.Insecure,
		NoSandbox:     env.NoSandbox,
		RateLimitsOff: env.RateLimitsOff,
		Operator:      cmp.Or(cfg.Operator, operator()),
		Dial:          env.Dial,
		DialAddress:   env.DialAddress, DialSupervisor: env.DialSupervisor,
		NATS: bus.Config{
			URL: env.NATS.URL, InProcess: env.NATS.InProcess, User: "gateway", Files: bus.Files(env.NATS.Files),
			Name: "gateway " + env.Instance, Log: env.Log,
		},
		Telemetry: env.Telemetry,
	})
}

// operator is the user of the operating system. This user is the operator of a single-user daemon.
func operator() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "operator"
	}
	// An identity travels in HTTP headers, which take printable ASCII only.
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, u.Username)
}
