package jetstream_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/bus/embedded"
	"kaged.dev/services/session-manager/internal/adapter/jetstream"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline bounds the waits of a test; reaching it is a failure.
const deadline = time.Minute

// If NATS limits messages below the largest frame, a warning is logged. A refused frame is stored shortened and
// does not block later frames.
func TestSmallMessages(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), MaxPayload: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	var written bytes.Buffer
	log := slog.New(slog.NewTextHandler(&written, nil))
	stream := jetstream.New(jetstream.Config{Conn: bus.Config{InProcess: server}}, log)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { stream.Run(ctx) })

	defer work.Wait()
	defer cancel()

	w := frames.New(frames.Config{
		Session: "S1", Epoch: 1, Stream: stream, Buffer: 1 << 20, Batch: 256 << 10, Log: log,
		Held: func(context.Context) error { return nil }, Progress: func(frames.Progress) {}, Lost: func(error) {},
	}, frames.Start{})
	payload := `{"id":"c","input":"` + strings.Repeat("x", 200<<10) + `"}`
	long := frames.Frame{Channel: frames.Output, Type: "message.tool_call", Payload: []byte(payload)}
	defer w.Close(ctx)
	for _, f := range []frames.Frame{long, {Channel: frames.Output, Type: "message.end", Payload: []byte(`{}`)}} {
		if err := w.Emit(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if tail, err := stream.Tail(ctx, "S1", frames.Output); err != nil || tail.Last != 2 {
		t.Errorf("the stream has %+v, %v", tail, err)
	}
	w.Close(ctx)
	cancel()
	work.Wait()
	for _, want := range []string{"NATS takes less than the largest frame", "a frame is shortened"} {
		if strings.Count(written.String(), want) != 1 {
			t.Errorf("the log does not say once that %s: %s", want, written.String())
		}
	}
}
