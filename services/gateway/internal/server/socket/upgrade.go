package socket

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/wirejson"
	"kaged.dev/services/gateway/internal/core/channel"
)

// Protocol is the WebSocket subprotocol of all sockets.
const Protocol = "kaged.v1"

// challengeBytes is the length of a decoded Sec-WebSocket-Key.
const challengeBytes = 16

// The server's layers have checked the origin already. The caller of the upgrader answers its refusals.
func allowed(*http.Request) bool                                { return true }
func unanswered(http.ResponseWriter, *http.Request, int, error) {}

// Upgrade upgrades a request to a socket, for a caller that may use the session. The session is held first, so that
// each refusal is an HTTP answer. It fails with bad_request for a request that is not a handshake of [Protocol],
// with validation_failed if takeover or terminals is neither 0 nor 1, with the error of holding the session, and
// with unavailable; then nothing is written. signedOut registers end, to be called when the caller is signed out;
// end closes the socket.
func (h *Hub) Upgrade(
	w http.ResponseWriter, r *http.Request, session string, signedOut func(end func()) (stop func()),
) error {
	if err := CheckHandshake(w, r); err != nil {
		return err
	}
	takeover, err := flag(r, "takeover")
	if err != nil {
		return err
	}
	window, err := flag(r, "terminals")
	if err != nil {
		return err
	}
	if err := h.deps.Ready(); err != nil {
		return err
	}
	s := newSocket(h, session, ident.CallerFrom(r.Context()))
	s.window = window
	if err := h.add(s); err != nil {
		return err
	}
	s.forget = signedOut(func() {
		s.close(codeSignedOut, "The browser of this socket was signed out; sign in again.")
	})
	if !window { // before the hold tells the number of the last frame, so that each later one is delivered
		if stop, err := h.deps.Follow(r.Context(), session); err == nil {
			s.ignore = stop
		} else {
			s.cancel()
			h.remove(s)
			return err
		}
	}
	hold, err := s.attachWithin(r.Context(), takeover)
	if err != nil {
		s.cancel()
		h.remove(s)
		return err
	}
	if !window {
		s.published(hold)
	}
	conn, err := h.upgrader.Upgrade(Metered(w, h.deps.Limits), r, maps.Clone(w.Header()))
	if err != nil {
		s.cancel()
		h.remove(s)
		return fault.Wrap(err, fault.BadRequest, "The upgrade to a WebSocket failed.")
	}
	s.start(conn, hold)
	return nil
}

// CheckHandshake fails with bad_request if the upgrade would fail. It runs before the session is held, so that a
// bad handshake does not end another socket by takeover.
func CheckHandshake(w http.ResponseWriter, r *http.Request) error {
	if !websocket.IsWebSocketUpgrade(r) {
		return handshake("This is a socket; send an upgrade to WebSocket.")
	}
	if !hasToken(r, "Sec-WebSocket-Version", "13") {
		w.Header().Set("Sec-WebSocket-Version", "13")
		return handshake("The WebSocket version must be 13.")
	}
	if key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key")); err != nil ||
		len(key) != challengeBytes {
		return handshake("Sec-WebSocket-Key must be 16 bytes in base64.")
	}
	if !slices.Contains(websocket.Subprotocols(r), Protocol) {
		return handshake("The WebSocket subprotocol must be %s.", Protocol)
	}
	return nil
}

func flag(r *http.Request, name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "", "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, wirejson.Invalid(name, "%s must be 0 or 1.", name)
}

func handshake(format string, args ...any) *fault.Error {
	return fault.New(fault.BadRequest, format, args...)
}

func hasToken(r *http.Request, name, token string) bool {
	for _, line := range r.Header.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// attachWithin holds the session for as long as the socket lives. It fails if the request or the attach timeout
// ends first. For a socket of terminals it only checks that the session exists.
func (s *Socket) attachWithin(request context.Context, takeover bool) (channel.Hold, error) {
	waiting, cancel := context.WithTimeout(request, s.hub.deps.Limits.Attach)
	defer cancel()
	stop := context.AfterFunc(waiting, s.cancel)
	var hold channel.Hold
	var err error
	if s.window {
		_, err = s.hub.deps.Terminals(s.ctx, s.session, "")
	} else {
		hold, err = s.hub.deps.Attach(s.ctx, s.session, takeover)
	}
	if !stop() && err == nil {
		err = waiting.Err()
	}
	if err != nil && waiting.Err() != nil && request.Err() == nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The session's holder does not answer; try again shortly.").
			With("subsystem", "session-manager")
	}
	if err != nil {
		return nil, fault.From(err)
	}
	return hold, nil
}
