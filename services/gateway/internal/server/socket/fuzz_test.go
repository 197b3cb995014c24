package socket

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/gateway/internal/core/channel"
	"kaged.dev/services/gateway/internal/core/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const process = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// The answers to any frame of a client, before and after its hello, are valid JSON. A frame that breaks the
// protocol fails with bad_request or validation_failed.
func FuzzHandle(f *testing.F) {
	for _, seed := range []string{
		`{"channel":"control","seq":1,"type":"hello","payload":{"resume_from_seq":{"output":3,"events":0}}}`,
		`{"channel":"control","type":"hello"}`, `{"channel":"control","type":"hello","payload":null}`,
		`{"channel":"control","type":"ping","payload":{}}`,
		`{"channel":"control","type":"subscribe","payload":{"channels":["output","pty:x","` + "\u2028" + `"]}}`,
		`{"channel":"control","type":"unsubscribe","payload":{"channels":["output"]}}`, `{"channel":"output","type":"x"}`,
		`[]`, `{"channel":1}`, `nonsense`,
		`{"channel":"control","type":"pty.resize","payload":{"cols":80}}`,
		`{"channel":"control","type":"subscribe","payload":{"channels":["pty:` + process + `"],"addressed":true,
			"offsets":{"pty:` + process + `":7}}}`,
		`{"channel":"control","seq":"1","type":"ping"}`,
	} {
		f.Add([]byte(seed))
	}
	hub := New(Deps{
		Log: slog.New(slog.DiscardHandler), Warnings: []string{"insecure-mode"},
		Stored: func(context.Context, string, string, int64) iter.Seq2[channel.Batch, error] {
			return func(func(channel.Batch, error) bool) {}
		},
		Terminals: func(context.Context, string, string) (terminal.Port, error) {
			return nil, fault.New(fault.ProcessNotFound, "No process runs.")
		},
		Limits: Limits{
			Terminals: 2, Pty: 1 << 16, Typed: 1 << 16, Frame: 1 << 16, Output: 1 << 16,
			Events: 1 << 16, Control: 1 << 16,
			Missing: time.Millisecond,
		},
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newSocket(hub, "S", ident.Caller{})
		defer s.cancel()
		s.workers.Add(1 << 20) // the socket is in no hub, so it must not be removed from one
		s.lanes[laneOutput].splice.Published(5)
		for range 3 {
			err := s.handle(data)
			if code := fault.CodeOf(err); err != nil && code != fault.BadRequest && code != fault.ValidationFailed {
				t.Fatalf("%q: %v", data, err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for item, ok := s.queue.Pop(); ok; item, ok = s.queue.Pop() {
			if !json.Valid(item.Data) {
				t.Fatalf("%q is answered with %q", data, item.Data)
			}
		}
	})
}

// A client's frame is parsed, payload included, before the socket is locked, so that a frame that takes long to
// parse does not delay live frames.
func TestFramesAreReadUnlocked(t *testing.T) {
	t.Parallel()
	s := newSocket(New(Deps{Log: slog.New(slog.DiscardHandler)}), "S", ident.Caller{})
	defer s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, frame := range []string{
		`{"channel":"control","type":1}`,
		`{"channel":"control","type":"hello","payload":{"resume_from_seq":{"output":"1"}}}`,
		`{"channel":"control","type":"subscribe","payload":{"channels":[1]}}`,
		`{"channel":"control","type":"unsubscribe","payload":[]}`,
	} {
		done := make(chan error, 1)
		go func() { done <- s.handle([]byte(frame)) }()
		select {
		case err := <-done:
			if fault.CodeOf(err) != fault.ValidationFailed {
				t.Errorf("%s: %v", frame, err)
			}
		case <-time.After(time.Minute): // a defect
			t.Fatalf("%s is not read while the socket is locked", frame)
		}
	}
}
