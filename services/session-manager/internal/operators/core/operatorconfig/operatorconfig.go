// Package operatorconfig has the configurations of single operators in a shared deployment. Each operator has two:
// their own, and the administrators' for them. Package localconfig lays both over the deployment's.
package operatorconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// Document is a configuration of one operator, in TOML.
type Document struct {
	Text string
	// Revision grows with each change, from 1; 0 is a document that was never set.
	Revision int64
	// UpdatedAt is the time of the last change, 0 for none.
	UpdatedAt int64
}

// Documents are both configurations of an operator.
type Documents struct{ Own, ByAdministrator Document }

// Store stores documents.
type Store interface {
	// Documents returns the documents of an operator.
	Documents(ctx context.Context, operator string) (Documents, error)
	// SetDocument replaces a document and appends the record, in one transaction.
	SetDocument(ctx context.Context, operator string, l localconfig.Layer, at int64, record audit.Record) error
}

// Service reads and replaces documents. It is safe for concurrent use.
type Service struct {
	Store Store
	// Base is the configuration of the deployment.
	Base localconfig.Source
	// Shared is false in a deployment of one operator, which has local.toml instead.
	Shared bool
}

// Mine returns the documents of the caller. It fails with conflict, details.reason one_operator, in a deployment of one
// operator.
func (s *Service) Mine(ctx context.Context) (Documents, error) {
	if err := s.shared(); err != nil {
		return Documents{}, err
	}
	return s.Store.Documents(ctx, ident.CallerFrom(ctx).UserID)
}

// SetMine replaces the caller's own document. It fails as [Service.Mine] and [Service.Set] do.
func (s *Service) SetMine(ctx context.Context, text string) (Documents, error) {
	if err := s.shared(); err != nil {
		return Documents{}, err
	}
	record := audit.New(ctx, Event, map[string]any{"set_by": "operator"})
	return s.Set(ctx, record.UserID, localconfig.Layer{Document: text}, record)
}

func (s *Service) shared() error {
	if s.Shared {
		return nil
	}
	return fault.New(fault.Conflict, "This deployment has one operator, whose configuration is local.toml; change it "+
		"with `kaged config set`.").With("reason", "one_operator")
}

// Event is the type of the record of a change.
const Event = "operator.configured"

// Set replaces a document of an operator, and stores the record with the names of its keys and its hash. It fails with
// validation_failed for an invalid document, and for an alias of a provider that the deployment does not have.
func (s *Service) Set(
	ctx context.Context, operator string, l localconfig.Layer, record audit.Record,
) (Documents, error) {
	f, err := l.Parse()
	if err == nil {
		err = s.known(ctx, f)
	}
	if err != nil {
		return Documents{}, refused(err)
	}
	sum := sha256.Sum256([]byte(l.Document))
	record.Payload["keys"], record.Payload["sha256"] = keys(f), hex.EncodeToString(sum[:])
	if err := s.Store.SetDocument(ctx, operator, l, time.Now().UnixMilli(), record.Clean()); err != nil {
		return Documents{}, err
	}
	return s.Store.Documents(ctx, operator)
}

// known fails for an alias with a target at a provider that the deployment does not have.
func (s *Service) known(ctx context.Context, f *config.File) error {
	base, err := s.Base.Config(ctx, "")
	if err != nil {
		return err
	}
	var names []string
	for _, p := range base.Providers() {
		names = append(names, p.Name)
	}
	for _, alias := range slices.Sorted(maps.Keys(f.Models)) {
		for _, target := range f.Models[alias] {
			if provider, _, _ := config.SplitTarget(target); !slices.Contains(names, provider) {
				return fault.New(fault.BadRequest, "models.%s: the deployment has no provider %.80q; it has: %s.", alias,
					provider, strings.Join(names, ", "))
			}
		}
	}
	return nil
}

// refused returns validation_failed for a document that cannot be accepted, and other errors unchanged.
func refused(err error) error {
	if !errors.Is(err, fault.BadRequest) {
		return err
	}
	e := fault.From(err)
	out := fault.Wrap(err, fault.ValidationFailed, "%s", e.Msg).With("fields", []string{"document"})
	for _, key := range []string{"line", "column"} {
		if v, ok := e.Details[key]; ok {
			out = out.With(key, v)
		}
	}
	return out
}

// keys returns the names of the settings in a document, without their values.
func keys(f *config.File) []string {
	list := []string{}
	for _, alias := range slices.Sorted(maps.Keys(f.Models)) {
		list = append(list, "models."+alias)
	}
	for _, rule := range f.DefaultTools {
		list = append(list, "default_tools."+rule.Pattern)
	}
	for _, v := range [][2]string{
		{"operator_name", f.OperatorName},
		{"ui.theme", f.UI.Theme},
		{"ui.timezone", f.UI.Timezone},
		{"ui.locale", f.UI.Locale},
	} {
		if v[1] != "" {
			list = append(list, v[0])
		}
	}
	return list
}
