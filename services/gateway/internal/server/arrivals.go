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

// arrivals are the request bodies being received, or the answers being written. At the limit, the oldest body of the
// operator with most bodies is given up for a new one: a client that trickles takes places from itself first, and an
// operator with few bodies keeps them until body_timeout. No least rate besides: body_limit within body_timeout is one.
type arrivals struct {
	limit int

	mu      sync.Mutex            // guards the fields below
	pending map[string][]*arrival // by operator, the oldest first; no empty lists
	n       int                   // in all lists
}

// arrival is one body being received.
type arrival struct {
	operator string
	giveUp   func() // ends reading
	given    bool   // up, for another
}

func newArrivals(limit int) *arrivals {
	return &arrivals{limit: limit, pending: map[string][]*arrival{}}
}

func (a *arrivals) enter(operator string, giveUp func()) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n >= a.limit {
		oldest := a.pending[a.busiest(operator)][0]
		a.remove(oldest)
		oldest.given = true
		oldest.giveUp()
	}
	in := &arrival{operator: operator, giveUp: giveUp}
	a.pending[operator] = append(a.pending[operator], in)
	a.n++
	return in
}

// busiest returns the operator with the most bodies. Of several it is the newcomer, if that is one of them.
func (a *arrivals) busiest(newcomer string) string {
	most := newcomer
	for operator, list := range a.pending {
		if len(list) > len(a.pending[most]) {
			most = operator
		}
	}
	return most
}

// leave reports whether the arrival was given up for another.
func (a *arrivals) leave(in *arrival) (given bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(in)
	return in.given
}

func (a *arrivals) remove(in *arrival) {
	list := a.pending[in.operator]
	i := slices.Index(list, in)
	if i < 0 {
		return // given up before
	}
	if a.n--; len(list) == 1 {
		delete(a.pending, in.operator)
	} else {
		a.pending[in.operator] = slices.Delete(list, i, i+1)
	}
}

// receive reads a request's body. Meanwhile the request holds no place among those that are served. It fails with
// payload_too_large, with bad_request for a body that breaks off or takes too long, and with unavailable for one
// that was given up or finds the gateway full.
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
	in := s.arriving.enter(exchangeOf(r).identity.UserID, func() { _ = conn.SetReadDeadline(time.Now()) })
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
		err = fault.Wrap(err, fault.Unavailable, "The body arrives slowly and others wait; send it again at once.").
			With("subsystem", "gateway")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fault.Wrap(err, fault.BadRequest, "The body did not arrive within %s.", s.deps.Limits.BodyTime)
	default:
		err = fault.Wrap(err, fault.BadRequest, "The body could not be read to its end.")
	}
	w.Header().Set("Connection", "close")
	return nil, err
}
