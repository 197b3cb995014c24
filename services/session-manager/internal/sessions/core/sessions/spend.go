package sessions

import (
	"context"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
)

// Spent is what model calls used. Estimated counts those whose use is not known.
type Spent struct {
	contract.Amount
	Estimated int64
}

// SpentOn is what the model calls of one project to one model used.
type SpentOn struct {
	ProjectID, Model string
	Spent
}

// Spending is what an operator's model calls used between two moments, in milliseconds since the epoch. By has at most
// MaxSpentOn entries, the most expensive first.
type Spending struct {
	Since, Until int64
	Total        Spent
	By           []SpentOn
	More         bool
}

// MaxSpentOn bounds the entries of a Spending.
const MaxSpentOn = 200

// spendSince is how far back a Spending reaches by default.
const spendSince = 24 * time.Hour

// Spending sums up what the caller's model calls used since a moment, nil for 24 hours ago. It fails with
// validation_failed.
func (s *Service) Spending(ctx context.Context, since *int64) (Spending, error) {
	at := now()
	out := Spending{Since: at - spendSince.Milliseconds(), Until: at}
	if since != nil {
		out.Since = *since
	}
	if out.Since < 0 || out.Since > at {
		return Spending{}, check.Field("since", "since must be a moment in the past, in milliseconds since the epoch.")
	}
	var err error
	out.Total, out.By, err = s.Store.Spending(ctx, ident.CallerFrom(ctx).UserID, out.Since, MaxSpentOn+1)
	if len(out.By) > MaxSpentOn {
		out.By, out.More = out.By[:MaxSpentOn], true
	}
	return out, err
}
