package store

import (
	"context"
	"encoding/json"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// Reserve implements [live.Store]. The session's row and the operator's budgets are locked until the reservation is
// committed, so that no two claims are checked against the same sums.
func (s *Sessions) Reserve(ctx context.Context, f lease.Fence, c record.Claim) (record.Verdict, error) {
	var v record.Verdict
	err := database.InTx(ctx, s.db, func(tx database.DB) error {
		v = record.Verdict{}
		q := db.New(tx)
		if err := q.AssertLease(ctx, f.Session, f.Holder, f.Epoch); err != nil {
			return err
		}
		held, err := q.HoldBudget(ctx, c.SessionID)
		if err != nil {
			return err
		}
		if there, err := q.HasSpend(ctx, c.RunID, c.InvocationID, int32(c.Call)); err != nil || there {
			return err // an earlier try was committed
		}
		budget := budgetFromText(held.Budget)
		if budget.Set() {
			use, err := sessionUse(ctx, q, c.Owner, c.SessionID, c.RunID)
			if err != nil {
				return err
			}
			c.Judge(contract.SessionBudget, budget, use, &v)
		}
		if c.Operator.Set() {
			use, err := operatorUse(ctx, q, c.Owner, c.Since)
			if err != nil {
				return err
			}
			c.Judge(contract.OperatorBudget, c.Operator, use, &v)
		}
		if v.Refused != nil {
			return nil
		}
		return q.InsertSpend(ctx, spendParams(c.Spend))
	})
	return v, refused(f, lost(err))
}

// Spending implements [sessions.Store].
func (s *Sessions) Spending(
	ctx context.Context, owner string, since int64, limit int32,
) (total sessions.Spent, by []sessions.SpentOn, err error) {
	q := db.New(s.db)
	sum, err := q.SpendSince(ctx, owner, since)
	if err != nil {
		return total, nil, lost(err)
	}
	total = sessions.Spent{
		Amount: contract.Amount{NanoUSD: sum.NanoUsd, Tokens: sum.Tokens, Calls: sum.Calls}, Estimated: sum.Estimated,
	}
	groups, err := q.SpendGroups(ctx, owner, since, limit)
	for _, g := range groups {
		by = append(by, sessions.SpentOn{ProjectID: g.ProjectID, Model: g.Model, Spent: sessions.Spent{
			Amount: contract.Amount{NanoUSD: g.NanoUsd, Tokens: g.Tokens, Calls: g.Calls}, Estimated: g.Estimated,
		}})
	}
	return total, by, lost(err)
}

// sessionUse reads the reservations before the sums, so that a call that is settled in between counts twice rather
// than not at all. The working time excludes the run but, which is active and measures its own.
func sessionUse(ctx context.Context, q *db.Queries, owner, session, but string) (record.Use, error) {
	reserved, err := q.Reserved(ctx, owner, session)
	if err != nil {
		return record.Use{}, err
	}
	rows, err := q.SessionSpend(ctx, session)
	u := record.Use{Reserved: contract.Amount{NanoUSD: reserved.NanoUsd, Tokens: reserved.Tokens, Calls: reserved.Calls}}
	for _, r := range rows {
		u.ByAgent = append(u.ByAgent, contract.Spender{
			Agent: r.AgentPath, Amount: contract.Amount{NanoUSD: r.NanoUsd, Tokens: r.Tokens, Calls: r.Calls},
		})
	}
	if err != nil {
		return u, err
	}
	worked, err := q.SessionWorked(ctx, session, but)
	u.Worked = time.Duration(worked) * time.Millisecond
	return u, err
}

// operatorUse is [sessionUse] for all sessions of an operator since a Unix time in milliseconds, without working
// time.
func operatorUse(ctx context.Context, q *db.Queries, owner string, since int64) (record.Use, error) {
	reserved, err := q.Reserved(ctx, owner, "")
	if err != nil {
		return record.Use{}, err
	}
	rows, err := q.OperatorSpend(ctx, owner, since)
	u := record.Use{Reserved: contract.Amount{NanoUSD: reserved.NanoUsd, Tokens: reserved.Tokens, Calls: reserved.Calls}}
	for _, r := range rows {
		u.ByAgent = append(u.ByAgent, contract.Spender{
			Agent: r.AgentPath, Amount: contract.Amount{NanoUSD: r.NanoUsd, Tokens: r.Tokens, Calls: r.Calls},
		})
	}
	return u, err
}

// Use implements [sessions.Store].
func (s *Sessions) Use(ctx context.Context, owner, session string) (record.Use, error) {
	u, err := sessionUse(ctx, db.New(s.db), owner, session, "")
	return u, database.Fail(err, "sum up the use of models")
}

//convert:import check "kaged.dev/pkg/check"
//convert:one spendParams record.Spend db.InsertSpendParams Reserved.NanoUSD=ReservedNanoUsd
//convert:with Reserved.Tokens=ReservedTokens
//convert:with Reserved.Calls=ReservedCalls >AgentPath=check.Storable(in.AgentPath)
//convert:with >Model=check.Storable(in.Model)

// queueSpend adds a change's statements about model calls to q.
func queueSpend(ctx context.Context, q *db.Queries, c record.Change) error {
	for _, s := range c.Reserved {
		if err := q.InsertSpend(ctx, spendParams(s)); err != nil {
			return err
		}
	}
	for _, s := range c.Settled {
		err := q.SettleSpend(ctx, db.SettleSpendParams{
			RunID: s.RunID, InvocationID: s.InvocationID, Call: int32(s.Call), NanoUsd: s.Used.NanoUSD, Tokens: s.Used.Tokens,
			Calls: s.Used.Calls, Estimated: s.Estimated, At: c.At,
		})
		if err != nil {
			return err
		}
	}
	for _, id := range c.Cut {
		if err := q.SettleRun(ctx, c.At, id); err != nil {
			return err
		}
	}
	if c.EndRun != nil {
		return q.SettleRun(ctx, c.At, c.EndRun.RunID)
	}
	return nil
}

// storedBudget is a budget as it is stored in a session's row.
type storedBudget struct {
	NanoUSD       int64 `json:"nano_usd,omitempty"`
	Tokens        int64 `json:"tokens,omitempty"`
	Calls         int64 `json:"calls,omitempty"`
	WalltimeMS    int64 `json:"walltime_ms,omitempty"`
	AllowUnpriced bool  `json:"allow_unpriced,omitempty"`
}

// budgetText returns a budget in its stored form, "" for one without limits.
func budgetText(b contract.Budget) string {
	if !b.Set() {
		return ""
	}
	encoded, err := json.Marshal(storedBudget{
		b.Limit.NanoUSD, b.Limit.Tokens, b.Limit.Calls, b.Walltime.Milliseconds(), b.AllowUnpriced,
	})
	if err != nil {
		panic(err) // it has only numbers and a bool
	}
	return string(encoded)
}

func budgetFromText(s string) contract.Budget {
	var b storedBudget
	if json.Unmarshal([]byte(s), &b) != nil {
		return contract.Budget{}
	}
	return contract.Budget{
		Limit: contract.Amount{NanoUSD: b.NanoUSD, Tokens: b.Tokens, Calls: b.Calls}, AllowUnpriced: b.AllowUnpriced,
		Walltime: time.Duration(b.WalltimeMS) * time.Millisecond,
	}
}
