package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
)

// arrivals are the bodies on their way. Where one more comes than may be, the one that began first is given up: a client that
// trickles holds its place only for as long as no others want it, and a body that is sent at once is in before its turn comes.
type arrivals struct {
	limit int

	mu      sync.Mutex // guards the field below
	pending []*arrival // the oldest first
}

// arrival is one body on its way.
type arrival struct {
	giveUp func() // ends reading
	given  bool   // up, for another
}

func (a *arrivals) enter(giveUp func()) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) >= a.limit {
		oldest := a.pending[0]
		a.pending = slices.Delete(a.pending, 0, 1)
		oldest.given = true
		oldest.giveUp()
	}
	in := &arrival{giveUp: giveUp}
	a.pending = append(a.pending, in)
	return in
}

// leave reports whether the arrival was given up for another.
func (a *arrivals) leave(in *arrival) (given bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.pending, in); i >= 0 {
		a.pending = slices.Delete(a.pending, i, i+1)
	}
	return in.given
}

// receive reads a request's body. Meanwhile the request holds no place among those that are served. It fails with
// payload_too_large, with bad_request for a body that breaks off or takes too long, and with unavailable for one that was given up or
// finds the gateway full.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	s.inFlight.Add(-1)
	body, err := s.arrive(w, r)
	if n := s.inFlight.Add(1); err == nil && n > int64(s.deps.Limits.Requests) {
		err = full()
	}
	return body, err
}

func (s *Server) arrive(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(s.deps.Limits.BodyTime))
	in := s.arriving.enter(func() { _ = conn.SetReadDeadline(time.Now()) })
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.deps.Limits.Body))
	given := s.arriving.leave(in)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		_ = conn.SetReadDeadline(time.Time{}) // The next request has its own.
		return body, nil
	case errors.As(err, &large):
		return nil, tooLarge(large.Limit)
	case given:
		err = fault.Wrap(err, fault.Unavailable, "The body arrives slowly and others wait; send it again at once.").With("subsystem", "gateway")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fault.Wrap(err, fault.BadRequest, "The body did not arrive within %s.", s.deps.Limits.BodyTime)
	default:
		err = fault.Wrap(err, fault.BadRequest, "The body could not be read to its end.")
	}
	w.Header().Set("Connection", "close")
	return nil, err
}
