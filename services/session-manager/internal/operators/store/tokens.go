package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/operators/core/tokens"
	"kaged.dev/services/session-manager/internal/operators/store/db"
)

// Tokens stores API tokens. It implements tokens.Store.
type Tokens struct{ db database.DB }

// NewTokens returns the API tokens in db.
func NewTokens(db database.DB) *Tokens { return &Tokens{db} }

// Create implements tokens.Store.
func (s *Tokens) Create(ctx context.Context, t tokens.Token, hash []byte, most int,
	record audit.Record,
) (stored bool, err error) {
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		stored = false
		q := db.New(tx)
		if err := q.LockTokens(ctx, t.Owner); err != nil {
			return err
		}
		if err := q.DropExpiredTokens(ctx, t.Owner, t.CreatedAt); err != nil {
			return err
		}
		n, err := q.CountTokens(ctx, t.Owner)
		if err != nil || n >= int64(most) {
			return err
		}
		err = q.InsertToken(ctx, db.InsertTokenParams{
			ID: t.ID, Owner: t.Owner, Name: t.Name, Scope: string(t.Scope),
			TokenHash: hash, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
		})
		if err != nil {
			return err
		}
		stored = true
		return auditstore.Append(ctx, tx, []audit.Record{record})
	})
	if postgres.IsUnique(err, "api_tokens_owner_user_id_name_key") {
		return false, fault.Wrap(err, fault.Conflict,
			"You have a token %q; revoke it first, or choose another name.", t.Name).
			With("reason", "name_taken")
	}
	return stored, database.Fail(err, "keep an API token")
}

// List implements tokens.Store.
func (s *Tokens) List(ctx context.Context, owner string) ([]tokens.Token, error) {
	rows, err := db.New(s.db).ListTokens(ctx, owner)
	list := make([]tokens.Token, len(rows))
	for i, r := range rows {
		list[i] = tokenOf(r, owner)
	}
	return list, database.Fail(err, "list API tokens")
}

//convert:one tokenOf(owner string) db.ListTokensRow tokens.Token >Owner=owner

// Revoke implements tokens.Store.
func (s *Tokens) Revoke(
	ctx context.Context, owner, id string, made func(tokens.Token) audit.Record,
) (t tokens.Token, err error) {
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		row, err := db.New(tx).RevokeToken(ctx, owner, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return tokens.NotFound(id)
		}
		if err != nil {
			return err
		}
		t = tokenOf(db.ListTokensRow(row), owner)
		return auditstore.Append(ctx, tx, []audit.Record{made(t)})
	})
	return t, database.Fail(err, "revoke an API token")
}

// Find implements tokens.Store.
func (s *Tokens) Find(ctx context.Context, hash []byte) (tokens.Token, error) {
	r, err := db.New(s.db).FindToken(ctx, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return tokens.Token{}, tokens.NotFound("")
	}
	return tokens.Token{
		ID: r.ID, Owner: r.OwnerUserID, Scope: tokens.Scope(r.Scope),
		ExpiresAt: r.ExpiresAt, LastUsedAt: r.LastUsedAt,
	}, database.Fail(err, "look an API token up")
}

// NoteUse implements tokens.Store.
func (s *Tokens) NoteUse(ctx context.Context, id string, now, before int64) error {
	return database.Fail(db.New(s.db).NoteTokenUse(ctx, now, id, before), "note the use of an API token")
}
