package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/tokens"
	"kaged.dev/services/session-manager/internal/operators/server"
	"kaged.dev/services/session-manager/internal/storetest"
)

func as(t *testing.T, user string) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: user, AuthMode: "loopback"})
}

func identify(t *testing.T, s *server.Server, text string) (*sessionmanagerv1.AuthenticateTokenResponse, error) {
	t.Helper()
	return s.AuthenticateToken(t.Context(), &sessionmanagerv1.AuthenticateTokenRequest{Token: text})
}

// A token is shown once, authenticates its owner with its scope, and is invalid as soon as it is revoked. The database
// does not have its text.
func TestTokenLife(t *testing.T) {
	t.Parallel()
	s, api, pool := serveTokens(t)
	made, err := api.CreateToken(as(t, "ada"), &apiv1.CreateTokenRequest{
		Name:  " ci ",
		Scope: apiv1.TokenScope_TOKEN_SCOPE_RUN,
	})
	if err != nil || made.GetName() != "ci" || !strings.HasPrefix(made.GetToken(), "kaged_") ||
		len(made.GetToken()) < 40 {
		t.Fatalf("made %v, %v", made, err)
	}
	got, err := identify(t, s, made.GetToken())
	if err != nil || got.GetUserId() != "ada" || got.GetTokenId() != made.GetId() ||
		got.GetScope() != made.GetScope() {
		t.Errorf("it is %v, %v", got, err)
	}
	var found int
	err = pool.QueryRow(t.Context(),
		"select count(*) from api_tokens where api_tokens::text like '%' || $1 || '%'", made.GetToken()[6:]).Scan(&found)
	if err != nil || found != 0 {
		t.Errorf("the text is in %d rows, %v", found, err)
	}
	list, err := api.ListTokens(as(t, "ada"), &apiv1.ListTokensRequest{})
	if err != nil || len(list.GetItems()) != 1 || list.GetItems()[0].LastUsedAt == nil ||
		list.GetItems()[0].GetScope() != made.GetScope() {
		t.Errorf("the list is %v, %v", list, err)
	}
	if list, err := api.ListTokens(as(t, "eve"), &apiv1.ListTokensRequest{}); err != nil ||
		len(list.GetItems()) != 0 {
		t.Errorf("eve sees %v, %v", list, err)
	}
	if _, err := api.RevokeToken(as(t, "eve"),
		&apiv1.RevokeTokenRequest{Id: made.GetId()}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("eve revokes it: %v", err)
	}
	revoked, err := api.RevokeToken(as(t, "ada"), &apiv1.RevokeTokenRequest{Id: made.GetId()})
	if err != nil || revoked.GetToken().GetName() != "ci" {
		t.Errorf("revoked %v, %v", revoked, err)
	}
	for _, text := range []string{made.GetToken(), "", "kaged_", "\x00", strings.Repeat("x", 1<<16)} {
		if _, err := identify(t, s, text); fault.CodeOf(err) != fault.Unauthenticated ||
			fault.From(err).Details["reason"] != "invalid_token" {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if got := storetest.Types(t, pool, audit.Query{Owner: "ada"}); got != "auth.token_revoked auth.token_created" {
		t.Errorf("records are %q", got)
	}
}

// An expired token is invalid, its name is free, and it does not count.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	s, api, pool := serveTokens(t)
	at := time.Now().Add(time.Hour).UnixMilli()
	req := &apiv1.CreateTokenRequest{Name: "ci", Scope: apiv1.TokenScope_TOKEN_SCOPE_READ, ExpiresAt: &at}
	made, err := api.CreateToken(as(t, "ada"), req)
	if err != nil || made.GetExpiresAt() != at {
		t.Fatalf("made %v, %v", made, err)
	}
	if _, err := pool.Exec(t.Context(), "update api_tokens set expires_at = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := identify(t, s, made.GetToken()); fault.CodeOf(err) != fault.Unauthenticated {
		t.Errorf("after its time: %v", err)
	}
	if _, err := api.CreateToken(as(t, "ada"), req); err != nil {
		t.Errorf("its name again: %v", err)
	}
}

// An invalid token is refused with a reason, and the limit of an operator's tokens is exact with simultaneous requests.
func TestTokenRefusals(t *testing.T) {
	t.Parallel()
	_, api, _ := serveTokens(t)
	past := int64(1)
	for name, c := range map[string]struct {
		req  *apiv1.CreateTokenRequest
		code fault.Code
	}{
		"no name": {
			&apiv1.CreateTokenRequest{Name: "  ", Scope: apiv1.TokenScope_TOKEN_SCOPE_READ},
			fault.ValidationFailed,
		},
		"long name": {&apiv1.CreateTokenRequest{
			Name:  strings.Repeat("ä", 81),
			Scope: apiv1.TokenScope_TOKEN_SCOPE_READ,
		}, fault.ValidationFailed},
		"NUL": {
			&apiv1.CreateTokenRequest{Name: "a\x00", Scope: apiv1.TokenScope_TOKEN_SCOPE_READ},
			fault.ValidationFailed,
		},
		"no scope": {&apiv1.CreateTokenRequest{Name: "a"}, fault.ValidationFailed},
		"past": {&apiv1.CreateTokenRequest{
			Name: "a", Scope: apiv1.TokenScope_TOKEN_SCOPE_READ,
			ExpiresAt: &past,
		}, fault.ValidationFailed},
	} {
		if _, err := api.CreateToken(as(t, "ada"), c.req); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	insecure := ident.WithCaller(t.Context(), ident.Caller{UserID: "ada", AuthMode: "insecure"})
	ok := &apiv1.CreateTokenRequest{Name: "a", Scope: apiv1.TokenScope_TOKEN_SCOPE_ADMIN}
	if _, err := api.CreateToken(insecure, ok); fault.CodeOf(err) != fault.Conflict ||
		fault.From(err).Details["reason"] != "insecure_mode" {
		t.Errorf("in insecure mode: %v", err)
	}
	var made, taken, many atomic.Int32
	var work sync.WaitGroup
	for i := range tokens.Most + 20 {
		work.Go(func() {
			name := fmt.Sprint(i)
			if i < 2 {
				name = "same"
			}
			_, err := api.CreateToken(as(t, "ada"), &apiv1.CreateTokenRequest{
				Name:  name,
				Scope: apiv1.TokenScope_TOKEN_SCOPE_READ,
			})
			switch f := fault.From(err); {
			case err == nil:
				made.Add(1)
			case f.Details["reason"] == "name_taken":
				taken.Add(1)
			case f.Details["reason"] == "too_many_tokens":
				many.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	work.Wait()
	if made.Load() != tokens.Most || taken.Load() > 1 || made.Load()+taken.Load()+many.Load() != tokens.Most+20 {
		t.Errorf("%d made, %d names taken, %d too many", made.Load(), taken.Load(), many.Load())
	}
	if _, err := api.CreateToken(as(t, "bob"), ok); err != nil {
		t.Errorf("another operator: %v", err)
	}
}
