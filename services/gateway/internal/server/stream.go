package server

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/channel"
	"kaged.dev/services/gateway/internal/server/socket"
)

// Frames reads the published frames of sessions.
type Frames interface {
	// Stored yields the stored batches of a channel that contain frame from or a later one, in order and without gaps.
	// It may end with channel.ErrGap or with unavailable.
	Stored(ctx context.Context, session, name string, from int64) iter.Seq2[channel.Batch, error]
	// Next returns the number of the next frame of a channel, 0 if the channel has no stored frame. It fails with
	// unavailable.
	Next(ctx context.Context, session, name string) (int64, error)
}

// Watch collects the live batches of a session for a reader that does not hold the session.
type Watch interface {
	// Published returns a channel that receives a value when Take has something to return.
	Published() <-chan struct{}
	// Take returns the batches since the last call by channel, in order. missed is true if batches may be missing
	// among or before them. lost is true if the stored frames were lost.
	Take() (batches map[string][]channel.Batch, missed, lost bool)
	// Forget ends the watch.
	Forget()
}

// The times of a stream of events.
const (
	// streamAlive is the interval of comments in an idle stream.
	streamAlive = 15 * time.Second
	// streamWrite is the timeout of one write.
	streamWrite = 30 * time.Second
	// streamStored is the pause before the store is read again for a published frame, streamAway the pause while the
	// store is unavailable.
	streamStored = 20 * time.Millisecond
	streamAway   = time.Second
)

// maxStreams bounds the streams of events of a gateway. At the limit a new stream ends the oldest stream of the
// operator with the most streams.
const maxStreams = 1024

// lasting returns the context of a stream of events. Behind a sign-in proxy it has a maximum age, so that the
// client reconnects through the proxy.
func (s *Server) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.deps.Limits.Age > 0 {
		return context.WithTimeout(ctx, s.deps.Limits.Age)
	}
	return context.WithCancel(ctx)
}

// stream answers GET /api/v1/sessions/{id}/stream with the frames of a session as server-sent events. Any number of
// readers may read while a socket holds the session. The id of an event has the reader's positions in all channels,
// so Last-Event-ID resumes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	id := r.PathValue("id")
	at, err := s.places(r)
	if err != nil {
		return err
	}
	_, err = sessionmanagerv1.NewSessionServiceClient(s.deps.SessionManager).GetSession(
		ctx, &apiv1.GetSessionRequest{Id: id},
	)
	if err != nil {
		return rpc.FromStatus(err)
	}
	ctx, cancel := s.lasting(ctx)
	defer cancel()
	signedOut := make(chan struct{})
	defer s.signedOut(r)(sync.OnceFunc(func() { close(signedOut) }))()
	x := exchangeOf(r)
	in := s.streaming.enter(x.identity.UserID, cancel)
	defer s.streaming.leave(in)
	defer x.release()()
	watch, err := s.deps.Watch(ctx, id)
	if err != nil {
		return err
	}
	defer watch.Forget()
	lost := false
	for _, p := range at {
		next, err := s.deps.Frames.Next(ctx, id, p.name)
		if err != nil {
			return err
		}
		lost = p.start(next) == channel.Lost || lost
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e := &events{
		w: w, control: http.NewResponseController(w), session: id, at: at, watch: watch, stored: s.deps.Frames.Stored,
		missing: s.deps.Limits.Missing,
	}
	switch {
	case e.comment("kaged") != nil:
	case lost:
		e.lost()
	default:
		s.relay(ctx, e, signedOut)
	}
	return nil
}

// relay sends frames until the client leaves or is signed out, the session ends, frames are lost, the stream reaches
// its maximum age, or the gateway stops.
func (s *Server) relay(ctx context.Context, e *events, signedOut <-chan struct{}) {
	alive := time.NewTicker(streamAlive)
	defer alive.Stop()
	for {
		sent, err := e.drain(ctx)
		var again <-chan time.Time
		switch {
		case errors.Is(err, channel.ErrGap):
			e.lost()
			return
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			e.closing("server_shutdown", socket.TooOld)
			return
		case errors.Is(err, fault.Unavailable):
			again = time.After(streamAway)
		case err != nil:
			return // the client has left
		case e.ended:
			e.closing("session_ended", "The session has ended.")
			return
		case e.filling():
			again = time.After(streamStored)
		}
		if sent {
			alive.Reset(streamAlive)
		}
		select {
		case <-e.watch.Published():
		case <-again:
		case <-alive.C:
			if e.comment("alive") != nil {
				return
			}
		case <-signedOut:
			e.closing("signed_out", "The browser of this stream was signed out; sign in again.")
			return
		case <-s.stopping:
			e.closing("server_shutdown", "The gateway is stopping; connect again.")
			return
		case <-ctx.Done(): // at the maximum age, or the client has left
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return
			}
		}
	}
}

// places returns the positions at which the reader begins. It fails with validation_failed for unknown and repeated
// channels, and for an invalid Last-Event-ID.
func (s *Server) places(r *http.Request) ([]*place, error) {
	var list []*place
	given := r.URL.Query()["channels"]
	if len(given) > 1 {
		return nil, wirejson.Invalid("channels", "channels is given more than once.")
	}
	wanted := strings.Join(given, "")
	if wanted == "" {
		wanted = frametype.Output.String() + "," + frametype.Events.String()
	}
	for name := range strings.SplitSeq(wanted, ",") {
		_, known := frametype.ParseChannel(name)
		if !known || slices.ContainsFunc(list, func(p *place) bool { return p.name == name }) {
			return nil, wirejson.Invalid("channels", "channels must be output, events, or both with a comma.")
		}
		list = append(list, &place{name: name})
	}
	seen := r.Header.Get("Last-Event-ID")
	if seen == "" {
		return list, nil
	}
	for part := range strings.SplitSeq(seen, ",") {
		name, text, _ := strings.Cut(part, ":")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, wirejson.Invalid(
				"Last-Event-ID", "Last-Event-ID must be the id of an event, such as output:12,events:5.",
			)
		}
		for _, p := range list {
			if p.name == name {
				p.seen, p.resumes = min(n, math.MaxInt64-2), true // no frame has a larger number
			}
		}
	}
	return list, nil
}
