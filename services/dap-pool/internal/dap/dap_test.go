package dap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contentlength"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream is a connection to a peer that has sent its last byte.
type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }

// Messages with any content are handled or end the connection; each call is answered once.
func FuzzMessages(f *testing.F) {
	f.Add(`{"seq":1,"type":"response","request_seq":1,"success":true,"body":{}}`)
	f.Add(`{"type":"response","request_seq":1,"body":{"error":{"format":"{a}","variables":{"a":"{a}{a}"}}}}`)
	f.Add(`{"type":"event","event":"stopped","body":[]}`)
	f.Add(`{"type":"request","command":"runInTerminal"}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		var in bytes.Buffer
		for range 2 {
			in.WriteString("Content-Length: ")
			in.WriteString(json.Number(itoa(len(text))).String() + "\r\n\r\n" + text)
		}
		c := New(stream{&in, io.Discard}, Options{MessageBytes: 1 << 20, Event: func(string, json.RawMessage) {}})
		err := c.Call(t.Context(), "threads", nil, nil)
		var refused *Refusal
		if err != nil && !errors.Is(err, ErrAdapter) && (!errors.As(err, &refused) || len(refused.Message) > errorBytes) {
			t.Errorf("%v", err)
		}
		c.Close()
		<-c.Done()
	})
}

func itoa(n int) string {
	data, _ := json.Marshal(n)
	return string(data)
}

// An adapter that does not read is detected when the queue is full. A call never blocks on it.
func TestAdapterThatDoesNotRead(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	c := New(near, Options{MessageBytes: 1 << 10, Event: func(string, json.RawMessage) {}})
	defer c.Close()
	long := strings.Repeat("x", 1<<20)
	for i := range 20 {
		if _, err := c.Start("evaluate", long); err != nil {
			if !errors.Is(err, ErrAdapter) || i < 15 {
				t.Errorf("after %d: %v", i, err)
			}
			return
		}
	}
	t.Error("20 MB were queued")
}

// A call ends with its context. Its late answer is dropped, and the connection continues.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := New(near, Options{MessageBytes: 1 << 10, Event: func(string, json.RawMessage) {}})
		in := contentlength.NewReader(far, 1<<10, errFrame)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := make(chan error, 1)
		go func() { late <- c.Call(ctx, "threads", nil, nil) }()
		if _, err := in.Read(); err != nil {
			t.Fatal(err)
		}
		if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		go func() {
			for _, seq := range []string{"1", "7", "2"} {
				text := `{"type":"response","success":true,"request_seq":` + seq + `,"body":{"n":` + seq + `}}`
				io.WriteString(far, "Content-Length: "+itoa(len(text))+"\r\n\r\n"+text)
			}
		}()
		go in.Read()
		var body struct{ N int }
		if err := c.Call(t.Context(), "threads", nil, &body); err != nil || body.N != 2 {
			t.Errorf("%+v, %v", body, err)
		}
		c.Close()
		<-c.Done()
		far.Close()
	})
}
