// Package operator has the gateways' common state about operators: the secret from which browsers' cookies are derived,
// the single-use tokens that sign a browser in, and the console's settings.
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

// Store stores secrets. Of a launch token it gets only the hash.
type Store interface {
	// EnsureEpoch returns the secret. If it is absent, fresh becomes the secret.
	EnsureEpoch(ctx context.Context, fresh []byte, now int64) ([]byte, error)
	// ReplaceEpoch makes fresh the secret, removes every launch token, and appends the record, in one transaction.
	ReplaceEpoch(ctx context.Context, fresh []byte, now int64, record audit.Record) error
	// PutLaunchToken stores a token's hash, and removes expired ones.
	PutLaunchToken(ctx context.Context, hash []byte, now, expiresAt int64) error
	// TakeLaunchToken removes a token's hash and reports whether it existed and had not expired. Of two callers with the
	// same token only one gets true.
	TakeLaunchToken(ctx context.Context, hash []byte, now int64) (bool, error)
}

// Deps are a Service's dependencies.
type Deps struct {
	Store  Store
	Config localconfig.Source
	Log    *slog.Logger
	// LaunchTokenTTL is the validity of an unused launch token.
	LaunchTokenTTL time.Duration
}

// Service has the operations for operators. It is safe for concurrent use and starts no goroutine.
type Service struct{ Deps }

// New returns a Service.
func New(deps Deps) *Service { return &Service{deps} }

// Boot ensures that there is a secret, before the first request for it. If rotate is true it creates a new one, as a
// single-node daemon does at each start; this invalidates the cookies and CSRF tokens of the previous run. Replicas
// that start one by one must not rotate.
func (s *Service) Boot(ctx context.Context, rotate bool) error {
	if rotate {
		_, err := s.RotateEpoch(ctx)
		return err
	}
	_, err := s.Epoch(ctx)
	return err
}

// Epoch returns the secret from which cookies and CSRF tokens are derived.
func (s *Service) Epoch(ctx context.Context) ([]byte, error) {
	return s.Store.EnsureEpoch(ctx, newSecret(), time.Now().UnixMilli())
}

// RotateEpoch replaces the secret, which invalidates all cookies, CSRF tokens and launch tokens. It returns the new
// secret.
func (s *Service) RotateEpoch(ctx context.Context) ([]byte, error) {
	secret := newSecret()
	record := audit.New(ctx, "auth.epoch_rotated", nil)
	if err := s.Store.ReplaceEpoch(ctx, secret, record.TS, record); err != nil {
		return nil, err
	}
	return secret, nil
}

// IssueLaunchToken creates a single-use token. Several may be valid at a time.
func (s *Service) IssueLaunchToken(ctx context.Context) (string, error) {
	token := base64.RawURLEncoding.EncodeToString(newSecret())
	now := time.Now()
	if err := s.Store.PutLaunchToken(ctx, hashOf(token), now.UnixMilli(), now.Add(s.LaunchTokenTTL).
		UnixMilli()); err != nil {
		return "", err
	}
	return token, nil
}

// ConsumeLaunchToken uses a token up. It fails with unauthenticated (details.reason invalid_launch_token) for an
// unknown, used or expired token; the error does not distinguish them.
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

// Preferences returns an operator's settings of the console. They are empty if the configuration cannot be read,
// because an operator must be able to sign in to see that error.
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
	rand.Read(secret) // it never fails: crypto/rand ends the process instead
	return secret
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
