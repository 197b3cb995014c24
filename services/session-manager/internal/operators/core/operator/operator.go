// Package operator holds the gateways' shared state about operators: the secret that browsers' cookies are derived
// from, the single-use tokens that let a browser in, and the console's settings.
package operator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// secretSize is the size of the auth epoch's secret and of launch tokens, in bytes.
const secretSize = 32

// Store keeps secrets. Of a launch token it is given the hash only.
type Store interface {
	// EnsureEpoch returns the secret; without one, fresh becomes it.
	EnsureEpoch(ctx context.Context, fresh []byte, now int64) ([]byte, error)
	// ReplaceEpoch makes fresh the secret, drops every launch token, and appends the record, in one transaction.
	ReplaceEpoch(ctx context.Context, fresh []byte, now int64, record audit.Record) error
	// PutLaunchToken keeps a token's hash, and drops those that have expired.
	PutLaunchToken(ctx context.Context, hash []byte, now, expiresAt int64) error
	// TakeLaunchToken removes a token's hash and reports whether it was there and had not expired. Of two callers with the
	// same token one is told so.
	TakeLaunchToken(ctx context.Context, hash []byte, now int64) (bool, error)
}

// Deps are a Service's dependencies.
type Deps struct {
	Store  Store
	Config localconfig.Source
	Log    *slog.Logger
	// LaunchTokenTTL is how long an unused launch token is good for.
	LaunchTokenTTL time.Duration
}

// Service answers for operators. It is safe for concurrent use and starts no goroutine.
type Service struct{ Deps }

// New returns a Service.
func New(deps Deps) *Service { return &Service{deps} }

// Boot makes sure that there is a secret, before the first request for it. With rotate it is a new one, which a
// single-node daemon wants at each start: cookies and CSRF tokens of the run before are worthless then. Replicas
// that start one by one must not rotate.
func (s *Service) Boot(ctx context.Context, rotate bool) error {
	if rotate {
		_, err := s.RotateEpoch(ctx)
		return err
	}
	_, err := s.Epoch(ctx)
	return err
}

// Epoch returns the secret that cookies and CSRF tokens are derived from.
func (s *Service) Epoch(ctx context.Context) ([]byte, error) {
	return s.Store.EnsureEpoch(ctx, newSecret(), time.Now().UnixMilli())
}

// RotateEpoch replaces the secret: cookies, CSRF tokens and launch tokens handed out before are worthless. It
// returns the new one.
func (s *Service) RotateEpoch(ctx context.Context) ([]byte, error) {
	secret := newSecret()
	record := audit.New(ctx, "auth.epoch_rotated", nil)
	if err := s.Store.ReplaceEpoch(ctx, secret, record.TS, record); err != nil {
		return nil, err
	}
	return secret, nil
}

// IssueLaunchToken makes a single-use token. Several may be valid at a time.
func (s *Service) IssueLaunchToken(ctx context.Context) (string, error) {
	token := base64.RawURLEncoding.EncodeToString(newSecret())
	now := time.Now()
	if err := s.Store.PutLaunchToken(ctx, hashOf(token), now.UnixMilli(), now.Add(s.LaunchTokenTTL).
		UnixMilli()); err != nil {
		return "", err
	}
	return token, nil
}

// ConsumeLaunchToken uses a token up. It fails with unauthenticated (details.reason invalid_launch_token) for one
// that is unknown, used or expired, without saying which.
func (s *Service) ConsumeLaunchToken(ctx context.Context, token string) error {
	taken, err := s.Store.TakeLaunchToken(ctx, hashOf(token), time.Now().UnixMilli())
	if err != nil {
		return err
	}
	if !taken {
		return fault.New(fault.Unauthenticated, "The launch token is not valid. Open a fresh launch URL.").
			With("reason", "invalid_launch_token")
	}
	return nil
}

// Preferences returns the console's settings of an operator. One that cannot be read leaves everything empty: an
// operator must be able to sign in to be told about it.
func (s *Service) Preferences(ctx context.Context, userID string) localconfig.Preferences {
	cfg, err := s.Config.Config(ctx, userID)
	if err != nil {
		s.Log.WarnContext(ctx, "operator's preferences are not known", "err", err)
		return localconfig.Preferences{}
	}
	return cfg.Preferences()
}

func newSecret() []byte {
	secret := make([]byte, secretSize)
	rand.Read(secret) // never fails: crypto/rand ends the process instead
	return secret
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
