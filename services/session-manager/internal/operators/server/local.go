package server

import (
	"context"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
)

// Local is the gRPC service LocalService. Its handlers convert messages and call core.
type Local struct {
	sessionmanagerv1.UnimplementedLocalServiceServer
	local   localconfig.Source
	configs *operatorconfig.Service
}

// NewLocal returns a Local.
func NewLocal(local localconfig.Source, configs *operatorconfig.Service) *Local {
	return &Local{local: local, configs: configs}
}

func (s *Local) config(ctx context.Context) (*localconfig.Config, error) {
	return s.local.Config(ctx, ident.CallerFrom(ctx).UserID)
}

// ListAliases lists the model aliases.
func (s *Local) ListAliases(ctx context.Context, _ *apiv1.ListAliasesRequest) (*apiv1.ListAliasesResponse, error) {
	cfg, err := s.config(ctx)
	if err != nil {
		return nil, err
	}
	resp := &apiv1.ListAliasesResponse{}
	for _, route := range cfg.Aliases() {
		alias := &apiv1.ModelAlias{Name: route.Alias}
		for _, t := range route.Targets {
			target := &apiv1.ModelTarget{Provider: t.Provider, Model: t.Model, Usable: t.Unusable == nil}
			if t.Unusable != nil {
				target.Reason = &t.Unusable.Msg
			}
			if name := cfg.ModelName(t.Provider, t.Model); name != "" {
				target.Name = &name
			}
			alias.Usable = alias.Usable || target.GetUsable()
			alias.Targets = append(alias.Targets, target)
		}
		resp.Items = append(resp.Items, alias)
	}
	return resp, nil
}

// redacted replaces a key.
const redacted = "<redacted>"

//convert:import localconfig "kaged.dev/services/session-manager/internal/operators/core/localconfig"
//convert:one provider localconfig.Provider *apiv1.Provider >Usable=in.Unusable==nil >ApiKey=- >Reason=-

// ListProviders lists the providers without their secrets.
func (s *Local) ListProviders(
	ctx context.Context, _ *apiv1.ListProvidersRequest,
) (*apiv1.ListProvidersResponse, error) {
	cfg, err := s.config(ctx)
	if err != nil {
		return nil, err
	}
	resp := &apiv1.ListProvidersResponse{}
	for _, p := range cfg.Providers() {
		out := provider(p)
		if p.HasKey {
			key := redacted
			out.ApiKey = &key
		}
		if p.Unusable != nil {
			out.Reason = &p.Unusable.Msg
		}
		resp.Items = append(resp.Items, out)
	}
	return resp, nil
}
