package run

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// A terminal gets a model's text without control characters; a pipe and JSON get it unchanged.
func TestModelTextOnTerminal(t *testing.T) {
	t.Parallel()
	const text, seen = "a\x1b[2J\u202eb\u2069\u200b 👩‍🚀 שלום می\u200cخواهم\n", "a[2Jb 👩‍🚀 שלום می\u200cخواهم\n"
	control, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	p := newPrinter(terminal, io.Discard, false)
	p.delta("text", text)
	terminal.Close()
	got, _ := io.ReadAll(control) // the end of a terminal is an error on Linux
	if want := strings.ReplaceAll(seen, "\n", "\r\n"); string(got) != want {
		t.Errorf("the terminal got %+q, want %+q", got, want)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p = newPrinter(write, io.Discard, false)
	p.delta("text", text)
	write.Close()
	if got, err := io.ReadAll(read); err != nil || string(got) != text {
		t.Errorf("the pipe got %+q, %v, want %+q", got, err, text)
	}
}
