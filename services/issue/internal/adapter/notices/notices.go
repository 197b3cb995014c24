// Package notices tells session-managers of changed issues by NATS: a notice for each change once it is committed. A
// change is never held up by NATS.
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

// Subject is the subject of the notices, kaged.issue.v1.IssueChanged each.
const Subject = "issues.changed"

// Bounds of waiting notices and of those that a start repeats: since the longest time that sockets catch up with.
const (
	maxWaiting = 10_000
	again      = bus.DefaultRetention
	maxAgain   = 1000
)

// pauses are between the tries while NATS or the database is away.
var pauses = retry.Pauses{First: 20 * time.Millisecond, Last: time.Second}

// Sender sends notices. Changes of one issue that wait together are one notice. Its methods may be called from any
// goroutine.
type Sender struct {
	log     *slog.Logger
	stirred chan struct{} // has room for one

	mu      sync.Mutex          // guards the field below
	waiting map[issues.Ref]bool // true for issues that were filed
}

// New returns a Sender whose notices wait for [Sender.Run].
func New(log *slog.Logger) *Sender {
	return &Sender{log: log, stirred: make(chan struct{}, 1), waiting: map[issues.Ref]bool{}}
}

// note lets a notice wait. Beyond the bound it is dropped.
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

// Recent returns the issues that changed last between two moments, at most rows of them, and whether each was filed
// then.
type Recent func(ctx context.Context, since, until int64, rows int32) (map[issues.Ref]bool, error)

// Run sends notices until ctx ends. It begins with those of changes shortly before begun, which may have died with the
// process before.
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

// connect returns nil if ctx ends first.
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

// send sends notices, trying until NATS has them or ctx ends. A repeated notice is harmless.
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
