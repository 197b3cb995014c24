package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"kaged.dev/pkg/fault"
)

// ErrGap ends [Frames.Replay] if a requested frame is no longer retained.
var ErrGap = errors.New("bus: a frame that was asked for is not retained")

// The details of fault.StaleLease: the place of the subject's last retained message in the stream, or 0, and the
// epoch that wrote it.
const (
	detailLastSeq = "last_seq"
	detailEpoch   = "epoch"
)

func unavailable(err error, format string, args ...any) *fault.Error {
	return fault.Wrap(err, fault.Unavailable, format, args...).With("subsystem", "bus")
}

// classify turns client errors into faults. ctx is the caller's; its end is not an error of the bus.
func classify(ctx context.Context, err error, what string) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return fault.From(ctx.Err())
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.Wrap(err, fault.PayloadTooLarge, "The message is larger than NATS takes.")
	}
	return unavailable(err, "%s", what)
}
