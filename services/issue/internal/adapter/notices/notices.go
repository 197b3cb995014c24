// Package notices sends notices of changed issues to session-managers over NATS: one for each committed change. A
// change never waits for NATS.
package notices

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/retry"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// Subject is the subject of the notices. Each notice is a kaged.issue.v1.IssueChanged.
const Subject = "issues.changed"

// The limits of waiting notices, and of the notices that a start repeats: those of the longest time that clients of the
// event stream can catch up with.
const (
	maxWaiting = 10_000
	again      = bus.DefaultRetention
	maxAgain   = 1000
)

// pauses are the pauses between tries while NATS or the database is unavailable.
var pauses = retry.Pauses{First: 20 * time.Millisecond, Last: time.Second}

// Sender sends notices. If several changes of one issue wait, they become one notice. Its methods may be called from
// any goroutine.
type Sender struct {
	log     *slog.Logger
	stirred chan struct{} // holds a token when a notice waits

	mu      sync.Mutex          // guards the field below
	waiting map[issues.Ref]bool // true for issues that were created
}

// New returns a Sender; its notices wait for [Sender.Run].
func New(log *slog.Logger) *Sender {
	return &Sender{log: log, stirred: make(chan struct{}, 1), waiting: map[issues.Ref]bool{}}
}

// note queues a notice. It drops the notice if the queue is full.
func (s *Sender) note(at issues.Ref, created bool) {
	s.mu.Lock()
	before, known := s.waiting[at]
	if known || len(s.waiting) < maxWaiting {
		s.waiting[at] = created || before
	}
	s.mu.Unlock()
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}

func (s *Sender) take() map[issues.Ref]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.waiting
	s.waiting = map[issues.Ref]bool{}
	return taken
}

// Recent returns at most rows issues that changed between two times, the latest ones, and whether each was created
// then.
type Recent func(ctx context.Context, since, until int64, rows int32) (map[issues.Ref]bool, error)

// Run sends notices until ctx ends. It starts with the notices of changes shortly before begun, because the previous
// process may have ended before it sent them.
func (s *Sender) Run(ctx context.Context, cfg bus.Config, begun time.Time, recent Recent) {
	conn := s.connect(ctx, cfg)
	if conn == nil {
		return
	}
	defer conn.Close()
	for range pauses.Each(ctx) {
		list, err := recent(ctx, begun.Add(-again).UnixMilli(), begun.UnixMilli(), maxAgain)
		if err == nil {
			s.send(ctx, conn, list)
			break
		}
		s.log.Warn("recent changes of issues were not looked for; trying again", "error", err)
	}
	for {
		select {
		case <-s.stirred:
			s.send(ctx, conn, s.take())
		case <-ctx.Done():
			return
		}
	}
}

// connect connects to NATS. It returns nil if ctx ends first.
func (s *Sender) connect(ctx context.Context, cfg bus.Config) *bus.Conn {
	for range pauses.Each(ctx) {
		conn, err := bus.Connect(ctx, cfg)
		if err == nil {
			return conn
		}
		s.log.Warn("notices of issues wait: NATS cannot be reached", "error", err)
	}
	return nil
}

// send sends notices, and repeats until NATS has them or ctx ends. A repeated notice has no bad effect.
func (s *Sender) send(ctx context.Context, conn *bus.Conn, list map[issues.Ref]bool) {
	messages := make([][]byte, 0, len(list))
	for at, created := range list {
		m, err := proto.Marshal(&issuev1.IssueChanged{
			OwnerUserId: at.Owner, ProjectId: at.ID, Number: at.Number, Created: created,
		})
		if err != nil {
			s.log.Error("a notice of an issue was not sent", "error", err)
			continue
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return
	}
	for range pauses.Each(ctx) {
		err := conn.Notify(ctx, Subject, messages...)
		if err == nil {
			return
		}
		s.log.Warn("notices of issues wait", "notices", len(messages), "error", err)
	}
}
