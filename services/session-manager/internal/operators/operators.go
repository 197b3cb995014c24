// Package operators is the context of operators: their configuration, and the common secrets of gateways.
package operators

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/postgres/database"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/adapter/issues"
	auditserver "kaged.dev/services/session-manager/internal/audit/server"
	"kaged.dev/services/session-manager/internal/operators/core/admin"
	"kaged.dev/services/session-manager/internal/operators/core/doctor"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operator"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
	"kaged.dev/services/session-manager/internal/operators/core/rates"
	"kaged.dev/services/session-manager/internal/operators/core/tokens"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
	"kaged.dev/services/session-manager/internal/operators/server"
	"kaged.dev/services/session-manager/internal/operators/store"
)

// Deps are the dependencies of the context. Every field except LocalConfig is required.
type Deps struct {
	DB  database.DB
	Log *slog.Logger
	// LocalConfig is the path of local.toml; "" stands for an empty configuration.
	LocalConfig string
	// Version is kaged's version, Workspace the default workspace, Parts the doctor's further parts.
	Version   string
	Workspace doctor.Workspace
	// Places has the workspaces of operators.
	Places *workspaces.Workspaces
	Parts  []doctor.Part
	// Records, Volume and Root are for administrators: the record of all operators, the workspaces, and the folder of
	// projects there.
	Records admin.Audit
	Volume  admin.Volume
	Root    string
}

// Operators is the context.
type Operators struct {
	// Local is the configuration of operators, for the other contexts.
	Local   localconfig.Source
	rules   *localconfig.Governed // nil unless operators share the deployment
	configs *operatorconfig.Service
	admin   *admin.Service
	rotate  bool
	service *operator.Service
	tokens  *tokens.Service
	doctor  *server.Doctor
	rates   *rates.Service
	places  *workspaces.Workspaces
}

// New returns the context. It starts no goroutine.
func New(cfg Config, deps Deps) *Operators {
	var local localconfig.Source = localconfig.NewFile(deps.LocalConfig, cfg.MaxScript, deps.Log)
	kept := store.NewAdmin(deps.DB)
	configs := &operatorconfig.Service{Store: kept, Base: local, Shared: deps.Places.Shared}
	var rules *localconfig.Governed
	if deps.Places.Shared {
		rules = &localconfig.Governed{Inner: local, Rules: kept}
		local = rules
	}
	return &Operators{
		Local: local, rules: rules, configs: configs, admin: &admin.Service{
			Store: kept, Audit: deps.Records, Volume: deps.Volume, Places: deps.Places, Configs: configs, Root: deps.Root,
		}, rotate: cfg.RotateSecrets, places: deps.Places,
		service: operator.New(operator.Deps{
			Store: store.NewOperator(deps.DB), Config: local, Log: deps.Log, LaunchTokenTTL: cfg.LaunchTokenTTL.D(),
		}),
		tokens: &tokens.Service{Store: store.NewTokens(deps.DB), Log: deps.Log},
		rates:  &rates.Service{Store: store.NewRates(deps.DB), Local: local},
		doctor: server.NewDoctor(
			&doctor.Doctor{Local: local, Workspace: deps.Workspace, Places: deps.Places, Parts: deps.Parts}, deps.Version,
		),
	}
}

// Register adds the context's services.
func (o *Operators) Register(r grpc.ServiceRegistrar) {
	sessionmanagerv1.RegisterOperatorServiceServer(r, server.New(o.service, o.tokens, o.rates))
	sessionmanagerv1.RegisterTokenServiceServer(r, server.NewTokens(o.tokens))
	sessionmanagerv1.RegisterLocalServiceServer(r, server.NewLocal(o.Local, o.configs))
	sessionmanagerv1.RegisterDoctorServiceServer(r, o.doctor)
	sessionmanagerv1.RegisterAdminServiceServer(r, server.NewAdmin(o.admin, auditserver.Entry))
}

// Admit fails with forbidden, details.reason operator_disabled, for an operator that an administrator has disabled.
func (o *Operators) Admit(ctx context.Context) error {
	caller := ident.CallerFrom(ctx).UserID
	if o.rules == nil || caller == "" {
		return nil
	}
	return o.rules.Admit(ctx, caller)
}

// Boot creates the common secrets of gateways, and the rows of workspaces, before the first request.
func (o *Operators) Boot(ctx context.Context) error {
	if err := o.places.Boot(ctx); err != nil {
		return err
	}
	return o.service.Boot(ctx, o.rotate)
}

// NewWorkspaces returns the workspaces of a deployment, for all contexts. The issue service at issue receives the
// assignments.
func NewWorkspaces(
	kept database.DB, issue grpc.ClientConnInterface, shared bool, names []string,
) *workspaces.Workspaces {
	return &workspaces.Workspaces{
		Names: names, Shared: shared, Store: store.NewWorkspaces(kept), Told: issues.New(issue),
	}
}
