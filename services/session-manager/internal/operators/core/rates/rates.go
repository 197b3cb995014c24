// Package rates has the rate limits of operators, which are common to all gateways.
package rates

import (
	"cmp"
	"context"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// The limits, with the names that gateways use.
const (
	Requests    = "requests"
	Messages    = "messages"
	Validations = "validations"
	DSLWrites   = "dsl_writes"
	Audit       = "audit"
)

// defaults are the maximum numbers of requests of a kind that an operator may send per minute, and at once.
var defaults = map[string]int{Requests: 600, Messages: 30, Validations: 120, DSLWrites: 10, Audit: 30}

// Store stores the remaining tokens of limits.
type Store interface {
	// Take takes up to wanted tokens of a limit of an operator. It returns the number taken, or the time until there is
	// one.
	Take(ctx context.Context, owner, limit string, wanted, perMinute int) (taken int, retry time.Duration, err error)
}

// Service has the operations on rate limits. It is safe for concurrent use.
type Service struct {
	Store Store
	Local localconfig.Source
}

// Take takes up to wanted tokens of a limit of the caller, or returns the time until there is one. It fails with
// validation_failed for an unknown limit, and with unavailable.
func (s *Service) Take(ctx context.Context, limit string, wanted int) (taken int, retry time.Duration, err error) {
	most, known := defaults[limit]
	if !known {
		return 0, 0, check.Field("limit", "There is no rate limit %q.", limit)
	}
	if wanted < 1 || wanted > most {
		wanted = min(max(wanted, 1), most)
	}
	owner := ident.CallerFrom(ctx).UserID
	if cfg, err := s.Local.Config(ctx, owner); err == nil { // while it cannot be read the defaults apply
		most = cmp.Or(configured(cfg.Limits())[limit], most)
	}
	return s.Store.Take(ctx, owner, limit, wanted, most)
}

// configured returns the limits of an operator's configuration, 0 for the default.
func configured(l localconfig.Limits) map[string]int {
	return map[string]int{
		Requests: l.RequestsPerMinute, Messages: l.MessagesPerMinute, Validations: l.ValidationsPerMinute,
		DSLWrites: l.DSLWritesPerMinute,
		Audit:     l.AuditReadsPerMinute,
	}
}
