// Package operators puts together the context of operators: their configuration, and the secrets that gateways share.
package operators

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"kaged.dev/pkg/postgres/database"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/operators/core/doctor"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operator"
	"kaged.dev/services/session-manager/internal/operators/core/rates"
	"kaged.dev/services/session-manager/internal/operators/core/tokens"
	"kaged.dev/services/session-manager/internal/operators/server"
	"kaged.dev/services/session-manager/internal/operators/store"
)

// Deps are what the context works with. Every field but LocalConfig is needed.
type Deps struct {
	DB  database.DB
	Log *slog.Logger
	// LocalConfig is the path of local.toml; "" stands for an empty configuration.
	LocalConfig string
	// Version is kaged's, Workspace the default one, Parts the doctor's other questions.
	Version   string
	Workspace doctor.Workspace
	Parts     []doctor.Part
}

// Operators is the context.
type Operators struct {
	// Local is the configuration of operators, for the other contexts.
	Local   localconfig.Source
	rotate  bool
	service *operator.Service
	tokens  *tokens.Service
	doctor  *server.Doctor
	rates   *rates.Service
}

// New returns the context. Nothing is started.
func New(cfg Config, deps Deps) *Operators {
	local := localconfig.NewFile(deps.LocalConfig, cfg.MaxScript, deps.Log)
	return &Operators{
		Local: local, rotate: cfg.RotateSecrets,
		service: operator.New(operator.Deps{
			Store: store.NewOperator(deps.DB), Config: local, Log: deps.Log, LaunchTokenTTL: cfg.LaunchTokenTTL.D(),
		}),
		tokens: &tokens.Service{Store: store.NewTokens(deps.DB), Log: deps.Log},
		rates:  &rates.Service{Store: store.NewRates(deps.DB), Local: local},
		doctor: server.NewDoctor(
			&doctor.Doctor{Local: local, Workspace: deps.Workspace, Parts: deps.Parts}, deps.Version,
		),
	}
}

// Register adds the context's services.
func (o *Operators) Register(r grpc.ServiceRegistrar) {
	sessionmanagerv1.RegisterOperatorServiceServer(r, server.New(o.service, o.tokens, o.rates))
	sessionmanagerv1.RegisterTokenServiceServer(r, server.NewTokens(o.tokens))
	sessionmanagerv1.RegisterLocalServiceServer(r, server.NewLocal(o.Local))
	sessionmanagerv1.RegisterDoctorServiceServer(r, o.doctor)
}

// Boot makes the secrets that gateways share, before the first request.
func (o *Operators) Boot(ctx context.Context) error { return o.service.Boot(ctx, o.rotate) }
