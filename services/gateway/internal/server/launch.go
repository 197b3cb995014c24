package server

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// Launcher creates launch URLs. A launch URL is returned to the caller and never logged, because opening it signs
// in.
type Launcher struct {
	// Operators issues the tokens.
	Operators sessionmanagerv1.OperatorServiceClient
	// Base returns the base URL that people open. It waits until the gateway listens.
	Base func(context.Context) (string, error)
}

// Issue returns a new launch URL, which signs in one browser. It fails with the fault of Base or of
// session-manager.
func (l *Launcher) Issue(ctx context.Context) (string, error) {
	base, err := l.Base(ctx)
	if err != nil {
		return "", err
	}
	resp, err := l.Operators.IssueLaunchToken(ctx, &sessionmanagerv1.IssueLaunchTokenRequest{})
	if err != nil {
		return "", err
	}
	return base + "/api/v1/launch?token=" + url.QueryEscape(resp.GetToken()), nil
}

// launch answers GET /api/v1/launch, and its short form /launch: it takes a launch token and sets the cookies.
func (s *Server) launch(w http.ResponseWriter, r *http.Request) error {
	if s.deps.Gate.Mode != access.Loopback {
		return fault.New(fault.NotFound, "There is no route %s in this mode.", r.URL.Path)
	}
	if r.Method != http.MethodGet {
		// Link previews send HEAD, which would use up the token.
		return fault.New(fault.MethodNotAllowed, "%s takes GET only.", r.URL.Path).With("allowed", []string{http.MethodGet})
	}
	// The secret is fetched first, so that a failure does not use up the token.
	secret, err := s.deps.Gate.Secrets.Renewed(r.Context())
	if err != nil {
		return err
	}
	_, err = s.operators.ConsumeLaunchToken(r.Context(),
		&sessionmanagerv1.ConsumeLaunchTokenRequest{Token: r.URL.Query().Get("token")})
	if errors.Is(err, fault.Unauthenticated) {
		err := s.denied(r, "invalid_launch_token", fault.New(fault.Unauthenticated,
			"The launch URL is not valid or was used before; `kaged auth launch` prints a fresh one.").
			With("reason", "invalid_launch_token"))
		if wantsPage(r.Header.Get("Accept")) {
			return spentLaunch(w)
		}
		return err
	}
	if err != nil {
		return err
	}
	x := exchangeOf(r)
	if err := s.deps.Audit.Record(r.Context(), access.Entry{
		Type: "auth.launch", UserID: s.deps.Gate.Operator, RequestID: x.requestID,
		Payload: map[string]any{"auth_mode": string(access.Loopback), "remote": r.RemoteAddr},
	}); err != nil {
		return err
	}
	token := s.signIn(w, secret)
	if wantsJSON(r.Header.Get("Accept")) {
		return answer(w, http.StatusOK, &apiv1.Launched{Ok: true, CsrfToken: token})
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", "/")
	w.WriteHeader(http.StatusFound)
	return nil
}

// signIn sets the cookies of a signed-in browser and returns the CSRF token.
func (s *Server) signIn(w http.ResponseWriter, secret []byte) string {
	token := access.CSRFToken(secret, s.deps.Gate.Operator)
	http.SetCookie(w, &http.Cookie{
		Name: cookieSession, Value: access.SessionToken(secret), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	s.setCSRF(w, token)
	return token
}

// wantsJSON reports whether an Accept header names JSON before HTML.
func wantsJSON(accept string) bool { return preferred(accept) == "application/json" }

// wantsPage reports whether an Accept header names HTML before JSON, as browsers do.
func wantsPage(accept string) bool { return preferred(accept) == "text/html" }

// preferred returns the first of JSON and HTML in an Accept header, or "".
func preferred(accept string) string {
	for part := range strings.SplitSeq(accept, ",") {
		media, _, err := mime.ParseMediaType(part)
		if err == nil && (media == "application/json" || media == "text/html") {
			return media
		}
	}
	return ""
}
