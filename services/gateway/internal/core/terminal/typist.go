package terminal

import (
	"context"
	"errors"
	"slices"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// The bounds of input that was sent and is not recorded yet.
const (
	maxUnrecorded = 1 << 10
	// RecordWithin is the maximum delay of a record.
	RecordWithin = time.Second
)

// MaxKeys is the maximum size of the input of one [Typist.Type] in bytes.
const MaxKeys = 32 << 10

// Typist sends an operator's input to a process and records it. Input with a control character, such as a newline,
// is recorded before it is sent, together with the unrecorded input before it. Other input is sent at once and
// recorded later. A line that the terminal hides is recorded without its text. A Typist is used by one goroutine.
type Typist struct {
	port       Port
	unrecorded []byte
	hidden     bool // a part of unrecorded was hidden
}

// NewTypist returns a Typist for a process.
func NewTypist(port Port) *Typist { return &Typist{port: port} }

// Unrecorded reports whether input waits for [Typist.Flush].
func (t *Typist) Unrecorded() bool { return len(t.unrecorded) > 0 }

// Type sends input, and waits while the process does not read. It fails like [Port.Type] and [Port.Record]; the
// input was not sent then.
func (t *Typist) Type(ctx context.Context, keys []byte) error {
	if acts(keys) || len(t.unrecorded)+len(keys) > maxUnrecorded {
		hidden, err := t.port.Type(ctx, nil)
		if err != nil {
			return err
		}
		line := slices.Concat(t.unrecorded, keys)
		if err := t.record(ctx, line, hidden); err != nil {
			return err
		}
		_, err = t.pass(ctx, keys)
		return err
	}
	hidden, err := t.pass(ctx, keys)
	if err == nil {
		t.unrecorded, t.hidden = append(t.unrecorded, keys...), t.hidden || hidden
	}
	return err
}

// Flush records the unrecorded input.
func (t *Typist) Flush(ctx context.Context) error {
	if len(t.unrecorded) == 0 {
		return nil
	}
	return t.record(ctx, t.unrecorded, false)
}

func (t *Typist) record(ctx context.Context, keys []byte, hidden bool) error {
	typed := Typed{Keys: keys, Hidden: hidden || t.hidden, Length: len(keys)}
	if typed.Hidden {
		typed.Keys = nil
	}
	err := t.port.Record(ctx, typed)
	if err == nil {
		t.unrecorded, t.hidden = nil, false
	}
	return err
}

// full has the pauses between attempts while the process does not read.
var full = retry.Pauses{First: 5 * time.Millisecond, Last: time.Second}

func (t *Typist) pass(ctx context.Context, keys []byte) (hidden bool, err error) {
	for range full.Each(ctx) {
		if hidden, err = t.port.Type(ctx, keys); !errors.Is(err, fault.RateLimited) {
			return hidden, err
		}
	}
	return hidden, err
}

// acts reports whether keys contain a control character, on which a program may act.
func acts(keys []byte) bool {
	for _, k := range keys {
		if k < ' ' || k == 0x7f {
			return true
		}
	}
	return false
}
