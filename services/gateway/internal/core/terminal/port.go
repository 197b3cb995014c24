package terminal

import (
	"context"
	"time"
)

// Process describes a process at the time of [Port.Follow]. The bytes of its output from offset Start to End are
// stored.
type Process struct {
	Start, End int64
	// Terminal is true if the process has a terminal.
	Terminal bool
}

// Ended describes the end of a process. Known is false if its exit status is unknown.
type Ended struct {
	Known          bool
	Code           int32
	Signal, Reason string
	// Offset is the total size of the output in bytes.
	Offset   int64
	Duration time.Duration
}

// Typed is terminal input as it is recorded. If the terminal did not show the input, Hidden is true and Keys is
// empty.
type Typed struct {
	Keys   []byte
	Hidden bool
	Length int
}

// Port is the connection to one process. It is safe for concurrent use.
type Port interface {
	// Follow relays the output from an offset on until the process ends. It calls attached first, then output with the
	// offset of each piece. It fails with process_not_found and unavailable, and with the errors of attached and
	// output.
	Follow(
		ctx context.Context, from int64, attached func(Process) error, output func(at int64, data []byte) error,
	) (Ended, error)
	// Type sends input and reports whether the terminal hides it. Empty input only queries that. It fails with
	// rate_limited while earlier input is unread, and with process_ended, process_not_found, invalid_params and
	// unavailable.
	Type(ctx context.Context, keys []byte) (hidden bool, err error)
	// Resize sets the size of the terminal. It fails with invalid_params if the process has no terminal, and with
	// process_ended, process_not_found and unavailable.
	Resize(ctx context.Context, cols, rows uint32) error
	// Record stores the audit record of input. It fails with not_found, gone and unavailable.
	Record(ctx context.Context, typed Typed) error
}

// Open returns the port of a session's process. For an empty process it only checks the session and returns nil. It
// fails with not_found, gone, process_not_found and unavailable.
type Open func(ctx context.Context, session, process string) (Port, error)
