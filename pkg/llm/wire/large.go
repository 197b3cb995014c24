package wire

import "context"

// largeFrom is the size in bytes from which an answer is a large one.
const largeFrom = 1 << 20

// DefaultLarge is how many bytes large answers may have together while they come in.
const DefaultLarge = 64 << 20

// Large bounds the memory of a process's large incoming answers: those of more than 1 MiB. The
// number read at a time is the number that may all grow to the largest size; the others are read no
// further until one of them is whole, and their providers wait. So each comes to its end, in any
// case of the others, and ordinary answers never wait.
type Large chan struct{}

// NewLarge returns a bound of some bytes for answers of at most maxAnswer bytes. One at a time is always read.
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
