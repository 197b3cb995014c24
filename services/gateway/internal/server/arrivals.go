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

// arrivals are the request bodies that are being received, or the answers that are being sent. At the limit a new
// body ends the oldest body of the operator with the most bodies: an operator who sends slowly loses its own bodies
// first, and an operator with few bodies keeps them until body_timeout. There is no minimum rate besides, because
// body_limit and body_timeout bound it.
type arrivals struct {
	limit int

	mu      sync.Mutex            // guards the fields below
	pending map[string][]*arrival // by operator, the oldest first; an operator without any has no list
	n       int                   // in all lists
}

// arrival is one body that is being received, or one answer that is being sent.
type arrival struct {
	operator string
	giveUp   func() // ends the transfer
	given    bool   // true if the arrival was ended for another one
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

// busiest returns the operator with the most bodies. In a tie it returns the newcomer, if the newcomer is among
// them.
func (a *arrivals) busiest(newcomer string) string {
	most := newcomer
	for operator, list := range a.pending {
		if len(list) > len(a.pending[most]) {
			most = operator
		}
	}
	return most
}

// leave removes the arrival, and reports whether it was ended for another one.
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
		return // was ended for another one
	}
	if a.n--; len(list) == 1 {
		delete(a.pending, in.operator)
	} else {
		a.pending[in.operator] = slices.Delete(list, i, i+1)
	}
}

// receive reads a request's body. Meanwhile the request does not count as being served. It fails with
// payload_too_large, with bad_request for a body that breaks off or takes too long, and with unavailable for a body
// that was ended for another one, or if the gateway is full once the body has arrived.
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
		_ = conn.SetReadDeadline(time.Time{}) // the next request sets its own deadline
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
