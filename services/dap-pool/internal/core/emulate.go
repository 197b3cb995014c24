package core

import (
	"context"
	"slices"
	"strings"

	godap "github.com/google/go-dap"

	"kaged.dev/pkg/clip"
)

// emulates reports whether the pool itself has to count the hits of a breakpoint, or to log its message. In that case
// the adapter stops at every hit, and the pool continues the program.
func (s *session) emulates(b *Breakpoint) bool {
	return b.HitCount > 0 && !s.caps.SupportsHitConditionalBreakpoints ||
		b.LogMessage != "" && (!s.caps.SupportsLogPoints || b.Kind != kindLine)
}

// counted returns the hit condition of a breakpoint for the adapter, logged its message.
func (s *session) counted(b *Breakpoint) string {
	if s.emulates(b) {
		return ""
	}
	return s.adapter.hits(b.HitCount)
}

func (s *session) logged(b *Breakpoint) string {
	if s.emulates(b) {
		return ""
	}
	return b.LogMessage
}

// deliberates reports whether the pool may continue the program after a stop by itself. s.mu is held.
func (s *session) deliberates(stop godap.StoppedEventBody) bool {
	return (strings.Contains(stop.Reason, "breakpoint") || len(stop.HitBreakpointIds) > 0) &&
		slices.ContainsFunc(s.points, s.emulates)
}

// decide checks the breakpoints of a stop that the pool emulates, and continues the program if none of them is hit.
// Until then the agent sees the program as running.
func (s *session) decide(stop godap.StoppedEventBody) {
	ctx, cancel := context.WithTimeout(context.Background(), s.pool.opts.RequestTimeout)
	defer cancel()
	hit := s.at(ctx, stop)
	stays := len(hit) == 0
	for _, b := range hit {
		s.mu.Lock()
		b.passes++
		counts, passes := s.emulates(b), b.passes
		s.mu.Unlock()
		switch {
		case !counts:
			stays = true
		case passes < b.HitCount:
		case b.LogMessage == "":
			stays = true
		default:
			s.wrote([]byte(s.message(ctx, stop.ThreadId, b.LogMessage) + "\n"))
		}
	}
	s.mu.Lock()
	s.deciding = false
	// A step ends here, because the continuation would lose it.
	if stays || s.pausing || s.stepping || ctx.Err() != nil {
		s.halt(stop)
		s.mu.Unlock()
		return
	}
	// The lock is held so that a pause follows the request.
	pending, err := s.active().Start("continue", threadArguments{stop.ThreadId})
	s.mu.Unlock()
	if err == nil {
		err = pending.Wait(ctx, nil)
	}
	if err != nil {
		s.mu.Lock()
		s.halt(stop)
		s.mu.Unlock()
	}
}

// at returns the breakpoints at the position of a stop.
func (s *session) at(ctx context.Context, stop godap.StoppedEventBody) []*Breakpoint {
	var top *Frame
	if len(stop.HitBreakpointIds) == 0 {
		if frames, _, err := s.frames(ctx, stop.ThreadId, 0, 1); err == nil && len(frames) > 0 {
			top = &frames[0]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit []*Breakpoint
	for _, b := range s.points {
		if b.isHit(stop, top) {
			hit = append(hit, b)
		}
	}
	return hit
}

// message replaces the expressions of a log message by their values.
func (s *session) message(ctx context.Context, thread int, text string) string {
	var out strings.Builder
	for out.Len() < s.pool.opts.ValueBytes {
		before, rest, ok := strings.Cut(text, "{")
		expression, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			out.WriteString(text)
			break
		}
		out.WriteString(before)
		a, err := s.evaluate(ctx, Do{ThreadID: thread, Expression: expression, Context: "watch"})
		if err != nil {
			out.WriteString("{" + err.Error() + "}")
		} else {
			out.WriteString(a.Result.Value)
		}
		text = after
	}
	return clip.Marked(out.String(), s.pool.opts.ValueBytes, "…")
}
