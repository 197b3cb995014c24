package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// takeTries bounds the attempts if the lease is released each time between the attempt and the lookup of its
// holder.
const takeTries = 3

// Take implements [lease.Store].
func (s *Sessions) Take(ctx context.Context, session string, by lease.Holder, lifetime int64) (lease.Taken, error) {
	q := db.New(s.db)
	address := ""
	for range takeTries {
		row, err := q.TakeLease(ctx, db.TakeLeaseParams{
			SessionID: session, Holder: by.Instance, Node: by.Node, Address: by.Address, Lifetime: lifetime,
		})
		if err == nil {
			return lease.Taken{Fence: lease.Fence{Session: session, Holder: by.Instance, Epoch: row.Epoch}, Before: row.Before},
				nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return lease.Taken{}, database.Fail(err, "take lease")
		}
		address, err = q.LeaseAddress(ctx, session)
		if err == nil {
			break
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return lease.Taken{}, database.Fail(err, "take lease")
		}
	}
	return lease.Taken{}, fault.New(fault.StaleLease, "Another process holds session %s.", session).With("holder", address)
}

// Renew implements [lease.Store].
func (s *Sessions) Renew(ctx context.Context, instance string, list []string, lifetime int64) ([]string, error) {
	held, err := db.New(s.db).RenewLeases(ctx, instance, list, lifetime)
	return held, database.Fail(err, "renew leases")
}

// Release implements [lease.Store].
func (s *Sessions) Release(ctx context.Context, list []lease.Fence) error {
	type leases struct {
		sessions []string
		epochs   []int64
	}
	byHolder := map[string]leases{}
	for _, f := range list {
		l := byHolder[f.Holder]
		byHolder[f.Holder] = leases{append(l.sessions, f.Session), append(l.epochs, f.Epoch)}
	}
	for holder, l := range byHolder {
		if err := db.New(s.db).ReleaseLeases(ctx, holder, l.sessions, l.epochs); err != nil {
			return database.Fail(err, "release leases")
		}
	}
	return nil
}

// ReleaseNode implements [lease.Store].
func (s *Sessions) ReleaseNode(ctx context.Context, node, except string) (int64, error) {
	n, err := db.New(s.db).ReleaseNode(ctx, node, except)
	return n, database.Fail(err, "release a node's leases")
}

// Held implements [lease.Store].
func (s *Sessions) Held(ctx context.Context, f lease.Fence) error {
	held, err := db.New(s.db).LeaseHeld(ctx, f.Session, f.Holder, f.Epoch)
	if err == nil && !held {
		return fault.New(fault.StaleLease, "Another process took over session %s.", f.Session)
	}
	return database.Fail(err, "look at a lease")
}

// Abandoned implements [lease.Store].
func (s *Sessions) Abandoned(ctx context.Context, limit int) ([]string, error) {
	ids, err := db.New(s.db).AbandonedSessions(ctx, int32(limit))
	return ids, database.Fail(err, "look for abandoned runs")
}
