package box

import (
	"log/slog"
	"testing"
	"time"

	"kaged.dev/pkg/retry"
)

// A cage waits for the spare that is being made, which is nearer to its end than a new init. Any other cage starts its
// own.
func TestOneCageWaitsForTheSpare(t *testing.T) {
	launching, launched, init := make(chan struct{}), make(chan struct{}), &cageInit{}
	s := newSpares(time.Minute, func(kind) (*cageInit, error) {
		close(launching)
		<-launched
		return init, nil
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(s.close)
	mine, other := kind{user: ids{1, 1}}, kind{user: ids{2, 2}}
	s.want(mine)
	<-launching
	if s.take(other) != nil {
		t.Error("a cage took the spare of another user")
	}
	taken := make(chan *cageInit)
	go func() { taken <- s.take(mine) }()
	claimed := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.making.claimed
	}
	for range (retry.Pauses{First: time.Millisecond, Last: time.Millisecond}).Each(t.Context()) {
		if claimed() {
			break
		}
	}
	if s.take(mine) != nil {
		t.Error("two cages got the same spare")
	}
	close(launched)
	if <-taken != init {
		t.Error("the cage that waited did not get the spare")
	}
}
