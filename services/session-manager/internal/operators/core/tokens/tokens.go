// Package tokens has the rules of API tokens: named, with a scope, shown once, stored as a hash, revocable.
package tokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"strings"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

// Prefix is the start of the text of each token. Scanners for secrets and gateways recognise tokens by it.
const Prefix = "kaged_"

const (
	// size is the random part of a token in bytes.
	size = 32
	// maxName is the maximum length of a name in characters.
	maxName = 80
	// Most is the maximum number of tokens of an operator.
	Most = 100
	// useEvery is the minimum time between two records of a token's use.
	useEvery = time.Minute
)

// Scope is the set of calls that a token allows.
type Scope string

// The scopes. Each includes the previous ones.
const (
	Read  Scope = "read"
	Run   Scope = "run"
	Admin Scope = "admin"
)

// Token is a token without its text. Times are milliseconds since the Unix epoch, 0 if absent.
type Token struct {
	ID, Owner, Name string
	Scope           Scope
	CreatedAt       int64
	ExpiresAt       int64
	LastUsedAt      int64
}

// Store stores tokens by the hash of their text.
type Store interface {
	// Create adds a token, unless the operator already has most tokens; expired tokens do not count and are removed. It
	// returns false for one too many. It fails with conflict for a name in use.
	Create(ctx context.Context, t Token, hash []byte, most int, record audit.Record) (bool, error)
	// List returns an operator's tokens, the oldest first.
	List(ctx context.Context, owner string) ([]Token, error)
	// Revoke removes a token of an operator and appends the record that made returns. It fails with not_found.
	Revoke(ctx context.Context, owner, id string, made func(Token) audit.Record) (Token, error)
	// Find returns the token with a hash. It fails with not_found.
	Find(ctx context.Context, hash []byte) (Token, error)
	// NoteUse records that a token was used at the time now, unless a use at or after before is recorded.
	NoteUse(ctx context.Context, id string, now, before int64) error
}

// Service has the operations on tokens. It is safe for concurrent use and starts no goroutine.
type Service struct {
	Store Store
	Log   *slog.Logger
}

// Create creates a token of the caller and returns its text, which is not stored. It fails with validation_failed, and
// with conflict for a name in use, for one token too many, and in insecure mode, which ignores tokens.
func (s *Service) Create(ctx context.Context, name string, scope Scope, expiresAt int64) (Token, string, error) {
	caller := ident.CallerFrom(ctx)
	if caller.AuthMode == "insecure" {
		return Token{}, "", fault.New(fault.Conflict,
			"Tokens are ignored in insecure mode; restart kaged without --insecure.").
			With("reason", "insecure_mode")
	}
	name = strings.TrimSpace(name)
	if name == "" {
		return Token{}, "", check.Field("name", "name must not be empty.")
	}
	if err := check.Text("name", name, maxName); err != nil {
		return Token{}, "", err
	}
	if scope != Read && scope != Run && scope != Admin {
		return Token{}, "", check.Field("scope", "scope must be read, run or admin.")
	}
	now := time.Now().UnixMilli()
	if expiresAt != 0 && expiresAt <= now {
		return Token{}, "", check.Field("expires_at", "expires_at must be in the future, in milliseconds.")
	}
	t := Token{ID: ident.New(), Owner: caller.UserID, Name: name, Scope: scope, CreatedAt: now, ExpiresAt: expiresAt}
	text := newText()
	stored, err := s.Store.Create(ctx, t, hashOf(text), Most, audit.New(ctx, "auth.token_created", t.payload()))
	if err == nil && !stored {
		err = fault.New(fault.Conflict,
			"You have %d tokens, which is the most; revoke one with `kaged token revoke`.", Most).
			With("reason", "too_many_tokens")
	}
	if err != nil {
		return Token{}, "", err
	}
	return t, text, nil
}

func (t Token) payload() map[string]any {
	return map[string]any{"token_id": t.ID, "name": t.Name, "scope": string(t.Scope)}
}

// List returns the caller's tokens, the oldest first.
func (s *Service) List(ctx context.Context) ([]Token, error) {
	return s.Store.List(ctx, ident.CallerFrom(ctx).UserID)
}

// Revoke invalidates a token of the caller. It fails with not_found.
func (s *Service) Revoke(ctx context.Context, id string) (Token, error) {
	if !check.Findable(id) {
		return Token{}, NotFound(id)
	}
	return s.Store.Revoke(ctx, ident.CallerFrom(ctx).UserID, id, func(t Token) audit.Record {
		return audit.New(ctx, "auth.token_revoked", t.payload())
	})
}

// NotFound is the error for an unknown token of the operator.
func NotFound(id string) error {
	return fault.New(fault.NotFound, "There is no token %q; `kaged token list` shows those there are.", id)
}

// Authenticate returns the token with a text and records its use. It fails with unauthenticated (details.reason
// invalid_token) for an unknown, revoked or expired token; the error does not distinguish them.
func (s *Service) Authenticate(ctx context.Context, text string) (Token, error) {
	now := time.Now().UnixMilli()
	t, err := s.Store.Find(ctx, hashOf(text))
	if fault.CodeOf(err) == fault.NotFound || err == nil && t.ExpiresAt != 0 && t.ExpiresAt <= now {
		return Token{}, fault.New(fault.Unauthenticated,
			"The API token is not valid; make another with `kaged token create`.").
			With("reason", "invalid_token")
	}
	if err != nil {
		return Token{}, err
	}
	if before := now - useEvery.Milliseconds(); t.LastUsedAt < before {
		if err := s.Store.NoteUse(ctx, t.ID, now, before); err != nil {
			s.Log.WarnContext(ctx, "a token's use was not noted", "token", t.ID, "error", err)
		}
	}
	return t, nil
}

func newText() string {
	secret := make([]byte, size)
	rand.Read(secret) // it never fails: crypto/rand ends the process instead
	return Prefix + base64.RawURLEncoding.EncodeToString(secret)
}

// hashOf needs no salt: the text is 256 random bits.
func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
