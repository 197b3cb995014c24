// Package jetstream publishes frames through package bus: it implements [frames.Stream].
package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// Config is the connection to NATS and the settings of the stream.
type Config struct {
	Conn   bus.Config
	Frames bus.FramesConfig
	// Listen subscribes to notices on a new connection; without it no notice arrives.
	Listen func(context.Context, *bus.Conn) error
}

// Stream implements [frames.Stream]. Before [Stream.Run] has connected, and while NATS is unreachable, its methods
// fail with unavailable.
type Stream struct {
	cfg    Config
	log    *slog.Logger
	frames atomic.Pointer[connection]
}

type connection struct {
	conn   *bus.Conn
	frames *bus.Frames
}

// New returns a Stream without a connection.
func New(cfg Config, log *slog.Logger) *Stream { return &Stream{cfg: cfg, log: log} }

// connecting are the pauses between the attempts to connect.
var connecting = retry.Pauses{First: 20 * time.Millisecond, Last: time.Second}

// Run connects, retrying until it succeeds, and stays connected until ctx ends.
func (s *Stream) Run(ctx context.Context) {
	for range connecting.Each(ctx) {
		c, err := s.connect(ctx)
		if err == nil {
			s.frames.Store(c)
			<-ctx.Done()
			s.frames.Store(nil)
			c.conn.Close()
			return
		}
		if ctx.Err() == nil {
			s.log.Warn("frames wait: NATS cannot be reached", "error", err)
		}
	}
}

func (s *Stream) connect(ctx context.Context) (*connection, error) {
	conn, err := bus.Connect(ctx, s.cfg.Conn)
	if err != nil {
		return nil, err
	}
	f, err := bus.OpenFrames(ctx, conn, s.cfg.Frames)
	if err == nil && s.cfg.Listen != nil {
		err = s.cfg.Listen(ctx, conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	if most := f.MaxBody(); most < frames.MaxFrame {
		s.log.Warn("NATS takes less than the largest frame: longer ones are shortened; raise its max_payload",
			"frame_bytes", most, "largest_frame_bytes", frames.MaxFrame)
	}
	return &connection{conn, f}, nil
}

// Notify sends messages on a subject; see [bus.Conn.Notify].
func (s *Stream) Notify(ctx context.Context, subject string, messages ...[]byte) error {
	c := s.frames.Load()
	if c == nil {
		_, err := s.open()
		return err
	}
	return c.conn.Notify(ctx, subject, messages...)
}

// Ready fails with unavailable while NATS is unreachable.
func (s *Stream) Ready() error {
	if c := s.frames.Load(); c != nil {
		return c.conn.Ready()
	}
	_, err := s.open()
	return err
}

func (s *Stream) open() (*bus.Frames, error) {
	if c := s.frames.Load(); c != nil {
		return c.frames, nil
	}
	return nil, fault.New(fault.Unavailable, "NATS is not connected yet.").With("subsystem", "bus")
}

// Created implements [frames.Stream].
func (s *Stream) Created(ctx context.Context) (time.Time, error) {
	f, err := s.open()
	if err != nil {
		return time.Time{}, err
	}
	life, err := f.Incarnation(ctx)
	if err != nil {
		return time.Time{}, err
	}
	nanos, err := strconv.ParseInt(life, 36, 64)
	return time.Unix(0, nanos), err
}

// Tail implements [frames.Stream].
func (s *Stream) Tail(ctx context.Context, session string, c frames.Channel) (frames.Tail, error) {
	f, err := s.open()
	if err != nil {
		return frames.Tail{}, err
	}
	tail, found, err := f.Tail(ctx, session, c.String())
	if err != nil || !found {
		return frames.Tail{}, err
	}
	return frames.Tail{Place: tail.StreamSeq, Last: tail.Next() - 1, Epoch: tail.Epoch}, nil
}

// Append implements [frames.Stream].
func (s *Stream) Append(ctx context.Context, m frames.Message) (frames.Ack, error) {
	f, err := s.open()
	if err != nil {
		return frames.Ack{}, err
	}
	ack, err := f.Publish(ctx, bus.Batch{
		Session: m.Session, Channel: m.Channel.String(), Epoch: m.Epoch, Seq: m.First, Count: m.Count, Body: m.Data,
		MsgID:      m.ID,
		ExpectLast: &m.After,
	})
	if errors.Is(err, fault.StaleLease) {
		return frames.Ack{}, frames.ErrConflict
	}
	return frames.Ack{Place: ack.StreamSeq, Duplicate: ack.Duplicate}, err
}
