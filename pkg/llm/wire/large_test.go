package wire_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// answerOf is the stream of an answer of the given size.
func answerOf(size int) string {
	event := "data: " + strings.Repeat("x", 64<<10) + "\n\n"
	return strings.Repeat(event, max(1, size/(64<<10))) + "data: end\n\n"
}

// read reads a whole answer.
func read(ctx context.Context, stream string, opts wire.Options) (done *llm.Done, err error) {
	for ev, e := range wire.Stream(ctx, call(io.NopCloser(strings.NewReader(stream)), opts)) {
		if e != nil {
			err = e
		} else if ev.Done != nil {
			done = ev.Done
		}
	}
	return done, err
}

// Large answers wait until another ends, in whatever way; ordinary answers do not wait.
func TestLargeAnswersTakeTurns(t *testing.T) {
	t.Parallel()
	opts := wire.Options{Large: wire.NewLarge(1, 4<<20)} // one at a time
	hold, held := io.Pipe()
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for _, err := range wire.Stream(ctx, call(hold, opts)) {
			if err != nil {
				first <- err
			}
		}
	}()
	large := answerOf(2 << 20)
	// returns once the answer is read
	if _, err := io.WriteString(held, large[:len(large)-len("data: end\n\n")]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(held, "data: x\n\n"); err != nil {
		t.Fatal(err)
	}
	if done, err := read(t.Context(), answerOf(64<<10), opts); err != nil || done == nil {
		t.Errorf("an ordinary answer beside a large one: %v, %v", done, err)
	}
	impatient, giveUp := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := read(impatient, large, opts); second <- err }()
	giveUp()
	if err := <-second; err == nil {
		t.Errorf("a second large answer whose caller leaves ended with %v, want an error", err)
	}
	cancel()
	held.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-first; err == nil {
		t.Error("the first answer was cut off without an error")
	}
	if done, err := read(t.Context(), large, opts); err != nil || done == nil || len(done.Blocks[0].Text.Text) != 2<<20 {
		t.Errorf("a large answer after the first has ended: %v", err)
	}
}
