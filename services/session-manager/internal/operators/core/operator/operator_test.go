package operator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operator"
)

// memory is a store in memory. Methods that no test here calls are missing.
type memory struct {
	operator.Store
	epoch   []byte
	tokens  map[string]int64
	records []audit.Record
}

func (m *memory) EnsureEpoch(_ context.Context, fresh []byte, _ int64) ([]byte, error) {
	if m.epoch == nil {
		m.epoch = fresh
	}
	return m.epoch, nil
}

func (m *memory) ReplaceEpoch(_ context.Context, fresh []byte, _ int64, r audit.Record) error {
	m.epoch, m.tokens, m.records = fresh, map[string]int64{}, append(m.records, r)
	return nil
}

func (m *memory) PutLaunchToken(_ context.Context, hash []byte, _, expiresAt int64) error {
	m.tokens[string(hash)] = expiresAt
	return nil
}

func (m *memory) TakeLaunchToken(_ context.Context, hash []byte, now int64) (bool, error) {
	expiresAt, ok := m.tokens[string(hash)]
	delete(m.tokens, string(hash))
	return ok && now < expiresAt, nil
}

func service(t *testing.T, toml string) (*operator.Service, *memory) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "local.toml")
	if err := os.WriteFile(path, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &memory{tokens: map[string]int64{}}
	return operator.New(operator.Deps{
		Store: m, Config: localconfig.NewFile(path, 1<<20, slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler),
		LaunchTokenTTL: time.Hour,
	}), m
}

// The secret stays as long as a daemon runs; a boot with rotation, and a rotation, replace it. A-CSRF-04.
func TestEpoch(t *testing.T) {
	s, m := service(t, "")
	ctx := ident.WithCaller(t.Context(), ident.Caller{UserID: "ada"})
	if err := s.Boot(ctx, false); err != nil {
		t.Fatal(err)
	}
	first, err := s.Epoch(ctx)
	if again, _ := s.Epoch(ctx); err != nil || len(first) < 32 || !bytes.Equal(first, again) {
		t.Errorf("%d bytes, %v", len(first), err)
	}
	if err := s.Boot(ctx, false); err != nil || !bytes.Equal(m.epoch, first) {
		t.Errorf("a boot that does not rotate changed the secret: %v", err)
	}
	if err := s.Boot(ctx, true); err != nil || bytes.Equal(m.epoch, first) {
		t.Errorf("a boot that rotates kept the secret: %v", err)
	}
	rotated, err := s.RotateEpoch(ctx)
	if err != nil || !bytes.Equal(m.epoch, rotated) {
		t.Errorf("rotate: %v", err)
	}
	if last := m.records[len(m.records)-1]; last.EventType != "auth.epoch_rotated" || last.UserID != "ada" ||
		len(last.Payload) != 0 {
		t.Errorf("recorded %+v", last)
	}
}

// A launch token signs one browser in, once, until it expires; a rotation invalidates all issued tokens.
// A-AUTH-LOOP-04, A-LAUNCH-05, A-LAUNCH-06.
func TestLaunchTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := service(t, "")
		issue := func() string {
			token, err := s.IssueLaunchToken(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		refused := func(token string) {
			t.Helper()
			err := s.ConsumeLaunchToken(t.Context(), token)
			if !errors.Is(err, fault.Unauthenticated) || fault.From(err).Details["reason"] != "invalid_launch_token" {
				t.Errorf("err = %v", err)
			}
		}
		one, two := issue(), issue()
		for hash := range m.tokens {
			if hash == one || hash == two {
				t.Error("the store holds a token itself")
			}
		}
		for _, token := range []string{two, one} {
			if err := s.ConsumeLaunchToken(t.Context(), token); err != nil {
				t.Errorf("a valid token: %v", err)
			}
			refused(token)
		}
		refused("")
		refused("made-up")
		late := issue()
		time.Sleep(time.Hour)
		refused(late)
		stale := issue()
		if _, err := s.RotateEpoch(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused(stale)
	})
}

// The console shows the operator's name and preferences. They are empty while the configuration cannot be read.
func TestPreferences(t *testing.T) {
	s, _ := service(t, "operator_name = \"Ada\"\n[ui]\ntheme = \"dark\"\ntimezone = \"Europe/Budapest\"\nlocale = "+
		"\"en-US\"\n")
	want := localconfig.Preferences{OperatorName: "Ada", Theme: "dark", Timezone: "Europe/Budapest", Locale: "en-US"}
	if got := s.Preferences(t.Context(), "ada"); got != want {
		t.Errorf("preferences = %+v", got)
	}
	broken, _ := service(t, "operator_name = ")
	if got := broken.Preferences(t.Context(), "ada"); got != (localconfig.Preferences{}) {
		t.Errorf("preferences of a broken file = %+v", got)
	}
}
