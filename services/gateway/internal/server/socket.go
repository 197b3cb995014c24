package server

import (
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

// csrfProtocol is the prefix of a subprotocol entry with the CSRF token. A page cannot set headers of a WebSocket.
const csrfProtocol = "kaged.csrf."

// socket answers GET /api/v1/sessions/{id}/socket. The upgrade needs the CSRF token though it is a GET: in
// X-Kaged-CSRF, in the query parameter csrf, or in a subprotocol entry kaged.csrf.TOKEN.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkCSRF(r, upgradeToken(r)); err != nil {
		return err
	}
	return s.deps.Sockets.Upgrade(w, r, r.PathValue("id"), s.signedOut(r))
}

// systemSocket answers GET /api/v1/socket. It takes the CSRF token as [Server.socket] does.
func (s *Server) systemSocket(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkCSRF(r, upgradeToken(r)); err != nil {
		return err
	}
	return s.deps.SystemSocket(w, r, s.signedOut(r))
}

// signedOut returns a function that registers end, to be called when the request's browser is signed out. It
// ignores requests with an API token, which stays valid when the secret is rotated.
func (s *Server) signedOut(r *http.Request) func(end func()) (stop func()) {
	return func(end func()) (stop func()) {
		if exchangeOf(r).identity.Token != "" {
			return func() {}
		}
		return s.deps.Gate.SignedOut(r.Context(), cookie(r, cookieSession), end)
	}
}

func upgradeToken(r *http.Request) string {
	if token := r.Header.Get(headerCSRF); token != "" {
		return token
	}
	if token := r.URL.Query().Get("csrf"); token != "" {
		return token
	}
	for _, p := range websocket.Subprotocols(r) {
		if token, ok := strings.CutPrefix(p, csrfProtocol); ok {
			return token
		}
	}
	return ""
}
