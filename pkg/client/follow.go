package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// FollowOptions select frames of a session.
type FollowOptions struct {
	// Channels are the followed channels; nil means output and events.
	Channels []string
	// Seen are the last numbers seen, by channel; 0 asks for all retained frames. A channel without a number begins with
	// its next frame.
	Seen map[string]int64
	// Takeover ends the socket of another client that holds the session.
	Takeover bool
	// State, if set, is called at each change of the stream's state.
	State func(State)
}

// State is the connection state of a [Stream].
type State string

// The states.
const (
	// Live: the stream is attached and receives frames.
	Live State = "live"
	// Waiting: the connection is lost, and the stream reconnects after a pause.
	Waiting State = "waiting"
)

// Stream follows a session. One goroutine may range over its frames at a time.
type Stream struct {
	client  *Client
	session string
	options FollowOptions
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex // guards the fields below
	socket *Socket    // the current one, nil before the first
	seen   map[string]int64
}

// Follow attaches to a session. From then on every frame is in the stream or reported as missed. It fails with
// not_found, gone, unavailable, and conflict while another client holds the session (details.reason session_attached).
func (c *Client) Follow(ctx context.Context, session string, o FollowOptions) (*Stream, error) {
	if o.Channels == nil {
		o.Channels = []string{"output", "events"}
	}
	s := &Stream{client: c, session: session, options: o, seen: maps.Clone(o.Seen)}
	if s.seen == nil {
		s.seen = map[string]int64{}
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.connect(o.Takeover); err != nil {
		s.cancel()
		return nil, err
	}
	context.AfterFunc(s.ctx, s.hangUp)
	return s, nil
}

// Seen returns the last numbers seen, by channel, for [FollowOptions].
func (s *Stream) Seen() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seen)
}

// Close ends the stream.
func (s *Stream) Close() { s.cancel() }

func (s *Stream) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.socket != nil {
		_ = s.socket.Close()
	}
}

func (s *Stream) connect(takeover bool) error {
	query := ""
	if takeover {
		query = "?takeover=1"
	}
	socket, err := s.client.attach(s.ctx, s.session, query, s.Seen(), s.options.Channels)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.socket = socket
	for _, channel := range s.options.Channels {
		if _, known := s.seen[channel]; !known {
			s.seen[channel] = socket.Welcome[channel]
		}
	}
	if s.ctx.Err() != nil {
		_ = socket.Close()
		return s.ctx.Err()
	}
	s.tell(Live)
	return nil
}

func (s *Stream) tell(state State) {
	if s.options.State != nil {
		s.options.State(state)
	}
}

// reconnects are the pauses between connection attempts.
var reconnects = retry.Pauses{First: 250 * time.Millisecond, Last: 8 * time.Second, Spread: true}

// Frames yields each frame once, in the order of its channel. After an interruption it reconnects and resumes at the
// next frame. It ends without an error when the session or the context ends or the stream is closed. After [ErrMissed]
// the caller must read the stored messages; frames follow it. Every other error is the last value: conflict if another
// client has taken the session over, or an error of [Client.Follow].
func (s *Stream) Frames() iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		defer s.Close()
		for s.ctx.Err() == nil {
			closing, goOn := s.frames(yield)
			if !goOn || s.ctx.Err() != nil {
				return
			}
			switch closing {
			case "session_ended":
				return
			case "replaced":
				err := fault.New(fault.Conflict, "Another client has taken the session over.")
				yield(Frame{}, err.With("reason", "replaced"))
				return
			case "resume_failed":
				s.mu.Lock()
				clear(s.seen)
				s.mu.Unlock()
				if !yield(Frame{}, ErrMissed) {
					return
				}
			}
			if err := s.reconnect(); err != nil {
				if s.ctx.Err() == nil && !errors.Is(err, fault.Gone) {
					yield(Frame{}, err)
				}
				return
			}
		}
	}
}

// ErrMissed is the error of [Stream.Frames] for frames that expired before they were read.
var ErrMissed error = fault.New(fault.Gone, "Some frames expired before they were read; read the stored messages.")

// frames yields the frames of the current socket, and returns the code of its closing frame.
func (s *Stream) frames(yield func(Frame, error) bool) (closing string, goOn bool) {
	s.mu.Lock()
	socket := s.socket
	s.mu.Unlock()
	for {
		f, err := socket.Read()
		switch {
		case err != nil:
			_ = socket.Close()
			return "", true
		case f.Channel == "control" && f.Type == "closing": // the last frame
			_ = socket.Close()
			return closingCode(f), true
		case f.Channel == "control":
			continue
		case !s.note(f):
			continue
		}
		if !yield(f, nil) {
			return "", false
		}
	}
}

func closingCode(f Frame) string {
	var why struct{ Code string }
	_ = json.Unmarshal(f.Payload, &why) // without a code the socket still closes
	return why.Code
}

// note records a frame's number and reports whether the frame is new.
func (s *Stream) note(f Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Seq > 0 {
		if last, known := s.seen[f.Channel]; known && f.Seq <= last {
			return false
		}
		s.seen[f.Channel] = f.Seq
	}
	return true
}

// reconnect connects again. It retries even while another socket holds the session, because that is usually this
// client's own lost connection.
func (s *Stream) reconnect() error {
	s.tell(Waiting)
	for range reconnects.Each(s.ctx) {
		err := s.connect(false)
		attached := errors.Is(err, fault.Conflict) && fault.From(err).Details["reason"] == "session_attached"
		if err == nil || !attached && !errors.Is(err, fault.Unavailable) {
			return err
		}
	}
	return s.ctx.Err()
}
