package server

import (
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

// csrfProtocol begins the subprotocol entry that carries the CSRF token of a page, which can set no header on a
// WebSocket.
const csrfProtocol = "kaged.csrf."

// socket answers GET /api/v1/sessions/{id}/socket. The upgrade needs the CSRF token though it is a GET: in
// X-Kaged-CSRF, in the query's csrf, or in a subprotocol entry kaged.csrf.<token>.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkCSRF(r, upgradeToken(r)); err != nil {
		return err
	}
	return s.deps.Sockets.Upgrade(w, r, r.PathValue("id"), s.signedOut(r))
}

// systemSocket answers GET /api/v1/socket, with the CSRF token as a session's socket.
func (s *Server) systemSocket(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkCSRF(r, upgradeToken(r)); err != nil {
		return err
	}
	return s.deps.SystemSocket(w, r, s.signedOut(r))
}

// signedOut returns what tells of the end of a request's sign-in. An API token outlives rotated secrets.
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
