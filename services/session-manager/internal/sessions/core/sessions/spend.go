package sessions

import (
	"context"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
)

// Spent is the use of model calls. Estimated is the number of calls whose use is unknown; they count with their
// reservation.
type Spent struct {
	contract.Amount
	Estimated int64
}

// SpentOn is the use of one model by one project.
type SpentOn struct {
	ProjectID, Model string
	Spent
}

// Spending is the use of an operator's model calls between two times, in Unix milliseconds. By has at most
// MaxSpentOn entries, most expensive first; More says that entries are missing.
type Spending struct {
	Since, Until int64
	Total        Spent
	By           []SpentOn
	More         bool
}

// MaxSpentOn bounds the entries of a Spending.
const MaxSpentOn = 200

// spendSince is the default period of a Spending.
const spendSince = 24 * time.Hour

// Spending returns the use of the caller's model calls since a time, nil for 24 hours ago. It fails with
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
