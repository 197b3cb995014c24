package embedded

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

var discard = slog.New(slog.DiscardHandler)

// The log is limited, keeps the newest lines, and never fails its writer.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "postgres.log")
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 1<<20)
	for range 3*maxLog>>20 + 1 {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatalf("wrote %d bytes: %v", n, err)
		}
	}
	if _, err := l.Write([]byte("the end")); err != nil {
		t.Error(err)
	}
	if tail := l.tail(); len(tail) != maxTail || !bytes.HasSuffix([]byte(tail), []byte("the end")) {
		t.Errorf("the tail has %d bytes", len(tail))
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Write(line); err != nil {
		t.Errorf("writing after the end: %v", err)
	}
	for _, p := range []string{path, path + ".1"} {
		if info, err := os.Stat(p); err != nil || info.Size() > maxLog {
			t.Errorf("%s: %v, %v", p, info, err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasSuffix(text, []byte("the end")) {
		t.Errorf("the newest line is not there: %v", err)
	}
}
