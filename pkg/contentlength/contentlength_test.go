package contentlength_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"kaged.dev/pkg/contentlength"
)

var (
	errBroken = errors.New("the framing broke")
	errFull   = errors.New("the queue is full")
	errOver   = errors.New("the stream is over")
)

// Messages are read one after the other; headers other than Content-Length are ignored.
func TestRead(t *testing.T) {
	t.Parallel()
	r := contentlength.NewReader(strings.NewReader(
		"Content-Length: 2\r\n\r\n{}content-length : 3\nContent-Type: x\n\nabc",
	), 3, errBroken)
	for _, want := range []string{"{}", "abc"} {
		if got, err := r.Read(); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end of the stream", err)
	}
}

// A broken frame is an error that wraps that of the caller.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a long header":       "X: " + strings.Repeat("x", 5<<10) + "\r\n",
		"long headers":        strings.Repeat("X: "+strings.Repeat("x", 1<<10)+"\r\n", 5),
		"no length":           "X: 1\r\n\r\n",
		"no colon":            "Content-Length 1\r\n\r\n",
		"a negative length":   "Content-Length: -1\r\n\r\n",
		"no number":           "Content-Length: one\r\n\r\n",
		"a long message":      "Content-Length: 4\r\n\r\nabcd",
		"a message that ends": "Content-Length: 3\r\n\r\nab",
	} {
		_, err := contentlength.NewReader(strings.NewReader(text), 3, errBroken).Read()
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v, want %v", name, err, errBroken)
		}
	}
}

// Messages arrive in order. Writing fails once the peer has left more than the bound unread, and after Stop.
func TestWrite(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	w := contentlength.NewWriter(out, 64, errFull)
	for _, message := range []string{"one", "two"} {
		if err := w.Write([]byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(make([]byte, 64)); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
	r := contentlength.NewReader(in, 64, errBroken)
	for _, want := range []string{"one", "two"} {
		if got, err := r.Read(); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	<-w.Done()
	w.Stop(errOver)
	if err := w.Write(nil); !errors.Is(err, errFull) {
		t.Errorf("got %v, want the first reason %v", err, errFull)
	}
}

// A closed stream ends a blocked write.
func TestStopEndsABlockedWrite(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	w := contentlength.NewWriter(out, 64, errFull)
	if err := w.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	w.Stop(errOver)
	in.Close()
	<-w.Done()
	if err := w.Write(nil); !errors.Is(err, errOver) {
		t.Errorf("got %v, want %v", err, errOver)
	}
}

// Frames of any bytes are read or refused, and a content is no longer than the limit.
func FuzzRead(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("X: y\r\ncontent-length: 4\r\n\r\nnullContent-Length: 99\r\n\r\n{"))
	f.Add([]byte("Content-Length: -1\r\n\r\n"))
	f.Add([]byte("Content-Length: 99999999999999999999\r\n\r\n"))
	f.Add([]byte(strings.Repeat("a", 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := contentlength.NewReader(bytes.NewReader(data), 64, errBroken)
		for {
			content, err := r.Read()
			if err != nil {
				return
			}
			if len(content) > 64 {
				t.Fatalf("%d bytes", len(content))
			}
		}
	})
}
