package server_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/pgtest"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operator"
	"kaged.dev/services/session-manager/internal/operators/core/tokens"
	"kaged.dev/services/session-manager/internal/operators/server"
	"kaged.dev/services/session-manager/internal/operators/store"
)

func serve(t *testing.T) *server.Server {
	t.Helper()
	s, _, _ := serveTokens(t)
	return s
}

// serveTokens also returns the service of tokens and the database of both.
func serveTokens(t *testing.T) (*server.Server, *server.Tokens, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.New(t, migrations.Files, migrations.Schema)
	api := &tokens.Service{Store: store.NewTokens(pool), Log: slog.New(slog.DiscardHandler)}
	toml := filepath.Join(t.TempDir(), "local.toml")
	if err := os.WriteFile(toml, []byte("operator_name = \"Ada\"\n[ui]\ntheme = \"dark\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.New(operator.New(operator.Deps{
		Store: store.NewOperator(pool), Config: localconfig.NewFile(toml, 1<<20, slog.New(slog.DiscardHandler)),
		Log: slog.New(slog.DiscardHandler), LaunchTokenTTL: 24 * time.Hour,
	}), api, nil), server.NewTokens(api), pool
}

// Gateways share one secret, which a rotation replaces. A-CSRF-04.
func TestAuthEpoch(t *testing.T) {
	s := serve(t)
	first, err := s.GetAuthEpoch(t.Context(), &sessionmanagerv1.GetAuthEpochRequest{})
	if err != nil || len(first.GetSecret()) < 32 {
		t.Fatalf("%d bytes, %v", len(first.GetSecret()), err)
	}
	rotated, err := s.RotateAuthEpoch(t.Context(), &sessionmanagerv1.RotateAuthEpochRequest{})
	now, err2 := s.GetAuthEpoch(t.Context(), &sessionmanagerv1.GetAuthEpochRequest{})
	if err != nil || err2 != nil || bytes.Equal(rotated.GetSecret(), first.GetSecret()) ||
		!bytes.Equal(rotated.GetSecret(), now.GetSecret()) {
		t.Errorf("rotation: %v %v", err, err2)
	}
}

// A launch token works once, and several are valid at a time. A-AUTH-LOOP-04, A-LAUNCH-06.
func TestLaunchToken(t *testing.T) {
	s := serve(t)
	var tokens []string
	for range 2 {
		resp, err := s.IssueLaunchToken(t.Context(), &sessionmanagerv1.IssueLaunchTokenRequest{})
		if err != nil || len(resp.GetToken()) < 40 {
			t.Fatalf("%d characters, %v", len(resp.GetToken()), err)
		}
		tokens = append(tokens, resp.GetToken())
	}
	for _, token := range tokens {
		if _, err := s.ConsumeLaunchToken(
			t.Context(), &sessionmanagerv1.ConsumeLaunchTokenRequest{Token: token},
		); err != nil {
			t.Error(err)
		}
		_, err := s.ConsumeLaunchToken(t.Context(), &sessionmanagerv1.ConsumeLaunchTokenRequest{Token: token})
		if !errors.Is(err, fault.Unauthenticated) || fault.From(err).Details["reason"] != "invalid_launch_token" {
			t.Errorf("again: %v", err)
		}
	}
}

// The console receives the operator's name.
func TestGetOperator(t *testing.T) {
	got, err := serve(t).GetOperator(t.Context(), &sessionmanagerv1.GetOperatorRequest{})
	if err != nil || got.GetOperatorName() != "Ada" || got.GetTheme() != "dark" || got.GetLocale() != "" {
		t.Errorf("operator = %v, %v", got, err)
	}
}
