// Package metered counts ended runs and published frames for metrics: it wraps the store and the stream of package
// live.
package metered

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"kaged.dev/pkg/telemetry"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Store wraps store to count the ends of runs once they are committed.
func Store(store live.Store, kit *telemetry.Kit) live.Store {
	if !kit.Metrics() {
		return store
	}
	return counted{store, kit}
}

type counted struct {
	live.Store
	kit *telemetry.Kit
}

// Apply applies a change. If an answer was lost, only the try that succeeds is counted.
func (s counted) Apply(ctx context.Context, f lease.Fence, c record.Change, again bool) error {
	err := s.Store.Apply(ctx, f, c, again)
	if end := c.EndRun; err == nil && end != nil {
		outcome := string(end.State)
		s.kit.Add(telemetry.Runs, 1, outcome)
		if end.Error != nil {
			s.kit.Add(telemetry.RunFailures, 1, end.Error.Code.String())
		}
		if id, err := ulid.ParseStrict(end.RunID); err == nil { // a ULID contains the time of its creation
			took := time.UnixMilli(c.At).Sub(ulid.Time(id.Time()))
			s.kit.Record(telemetry.RunSeconds, max(took, 0).Seconds(), outcome)
		}
	}
	return err
}

// Stream wraps stream to count published frames.
func Stream(stream frames.Stream, kit *telemetry.Kit) frames.Stream {
	if !kit.Metrics() {
		return stream
	}
	return published{stream, kit}
}

type published struct {
	frames.Stream
	kit *telemetry.Kit
}

// Append appends a message and counts its frames.
func (s published) Append(ctx context.Context, m frames.Message) (frames.Ack, error) {
	ack, err := s.Stream.Append(ctx, m)
	if err == nil {
		s.kit.Add(telemetry.Frames, float64(m.Count), m.Channel.String())
	}
	return ack, err
}
