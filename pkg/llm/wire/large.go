package wire

import "context"

// largeFrom is the minimum size in bytes of a large answer.
const largeFrom = 1 << 20

// DefaultLarge is the default of the memory for large answers in transit, in bytes.
const DefaultLarge = 64 << 20

// Large limits the memory of a process's incoming large answers: those of more than 1 MiB. Only as many are read at a
// time as could all grow to the maximum size. The others are paused, and their providers wait, until one of them is
// complete. Each answer therefore completes, and ordinary answers never wait.
type Large chan struct{}

// NewLarge returns a limit of the given bytes for answers of at most maxAnswer bytes. At least one at a time is read.
func NewLarge(bytes int64, maxAnswer int) Large {
	return make(Large, max(1, bytes/int64(max(1, maxAnswer))))
}

// enter waits for the turn of a large answer. It fails with ctx's error.
func (l Large) enter(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l Large) leave() { <-l }
