package terminal

import (
	"context"
	"time"
)

// Process is a process when it is attached to. Of all the bytes that it wrote, those from number Start up to End are
// kept.
type Process struct {
	Start, End int64
	// Terminal says that it has one.
	Terminal bool
}

// Ended is the end of a process. Known is false if it was not seen.
type Ended struct {
	Known          bool
	Code           int32
	Signal, Reason string
	// Offset is how many bytes it ever wrote.
	Offset   int64
	Duration time.Duration
}

// Typed is input for a record. Keys are empty where it is Hidden: the terminal did not show it.
type Typed struct {
	Keys   []byte
	Hidden bool
	Length int
}

// Port is the way to one process. It is safe for concurrent use.
type Port interface {
	// Follow passes output on from a byte on until the process ends: attached first, then output, with the number of
	// its first byte. It fails with process_not_found, unavailable, and the errors of these two.
	Follow(
		ctx context.Context, from int64, attached func(Process) error, output func(at int64, data []byte) error,
	) (Ended, error)
	// Type hands over input and reports whether the terminal hides it; empty input asks for that alone. It fails with
	// rate_limited while earlier input waits, process_ended, process_not_found, invalid_params and unavailable.
	Type(ctx context.Context, keys []byte) (hidden bool, err error)
	// Resize sets the size of the terminal. It fails with invalid_params without a terminal, process_ended,
	// process_not_found and unavailable.
	Resize(ctx context.Context, cols, rows uint32) error
	// Record stores the record of input. It fails with not_found, gone and unavailable.
	Record(ctx context.Context, typed Typed) error
}

// Open finds the process of a session. Without a process it checks the session alone and returns nil. It fails with
// not_found, gone, process_not_found and unavailable.
type Open func(ctx context.Context, session, process string) (Port, error)
