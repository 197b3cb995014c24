package kit

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"

	"kaged.dev/pkg/termtext"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// conversation is a terminal on which the operator types answers.
type conversation struct {
	io.Reader
	bytes.Buffer
}

func (c *conversation) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func asked(subject *commonv1.ApprovalSubject, answers string) (shown string, yes bool) {
	c := &conversation{Reader: strings.NewReader(answers)}
	yes = ask(c, subject, nil).Yes
	return c.String(), yes
}

// No field of an approval, with any text of an agent, can end its line, move the cursor, or reorder or hide a part of
// it.
func TestAskShowsHostileFields(t *testing.T) {
	t.Parallel()
	const fake = "ls\n  in:      ./\nDo it? [y/N] y\n done\n\x1b[2J\x07\x08\u009b1A\u202e\u2066\u200b\u200d\u3164\xff"
	const want = `ls\n  in:      ./\nDo it? [y/N] y\n done\n\x1b[2J\a\b\u009b1A\u202e\u2066\u200b\u200d\u3164\xff`
	for field, subject := range map[string]*commonv1.ApprovalSubject{
		"tool":    {Tool: fake},
		"reason":  {Tool: "x.y", Reasons: []string{fake}},
		"command": {Tool: "x.y", Command: fake},
		"cwd":     {Tool: "x.y", Cwd: fake},
		"path":    {Tool: "x.y", Paths: []string{"ok", fake}},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			shown, yes := asked(subject, "\n")
			if yes {
				t.Error("an empty answer approved the call")
			}
			if !strings.Contains(shown, want) {
				t.Errorf("got %q, want a line with %q", shown, want)
			}
			if line := SubjectLine(subject); strings.Contains(line, "\n") || !termtext.Plain(line) {
				t.Errorf("the subject's line is %q", line)
			}
		})
	}
	t.Run("diff", func(t *testing.T) {
		t.Parallel()
		shown, _ := asked(
			&commonv1.ApprovalSubject{Tool: "x.y", Preview: "--- a/x\u202e\r\n+++ b/x\n+\tDo it? [y/N] \x1b[1A\n"},
			"\n",
		)
		if want := "  diff:    3 lines\n    --- a/x\\u202e\\r\n    +++ b/x\n    +\tDo it? [y/N] \\x1b[1A\nDo it? [y/N] "; !strings.Contains(
			shown,
			want,
		) {
			t.Errorf("got %q, want %q", shown, want)
		}
	})
}

// The question follows the command, and no field is shown twice.
func TestAskSaysEachFieldOnce(t *testing.T) {
	t.Parallel()
	shown, yes := asked(&commonv1.ApprovalSubject{
		Tool: "shell.bash", Reasons: []string{"git reset --hard is on the list."}, Command: "git reset --hard", Cwd: "./",
		Paths: []string{"a b"}, Preview: "-x",
	}, "y\n")
	want := "shell.bash needs your approval:\n  git reset --hard is on the list.\n  diff:    1 line\n    -x\n" +
		"  changes: \"a b\"\n  in:      \"./\"\n  command: \"git reset --hard\"\nDo it? [y/N] "
	if shown != want || !yes {
		t.Errorf("got %v %q, want %q", yes, shown, want)
	}
}

// A long field is cut and starts with its length. An s shows all of it before the question is asked again.
func TestAskCutsLongFields(t *testing.T) {
	t.Parallel()
	command := "git push --force" + strings.Repeat("\n", 5000) + "touch /tmp/x"
	subject := &commonv1.ApprovalSubject{
		Tool:    "shell.bash",
		Command: command,
		Paths:   strings.Split(strings.Repeat("p ", 100), " "),
	}
	shown, yes := asked(subject, "n\n")
	if yes || len(shown) > 5000 {
		t.Errorf("got %v and %d bytes", yes, len(shown))
	}
	for _, want := range []string{
		"  command: (5028 characters, 5001 lines) \"git push --force\\n", "touch /tmp/x\"\nDo it? [y/N, s shows all of it] ",
		"  changes: (101 files, the first 60)\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("lacks %q:\n%s", want, shown)
		}
	}
	shown, yes = asked(subject, "s\nyes\n")
	if !yes || !strings.Contains(shown, termtext.Quote(command)+"\nDo it?") || strings.Count(shown, "Do it?") != 2 {
		t.Errorf("after s: %v, %d questions", yes, strings.Count(shown, "Do it?"))
	}
}

// Input that was typed before a question, or before its repetition, does not answer it.
func TestAskDiscardsWhatWasTypedBefore(t *testing.T) {
	t.Parallel()
	long := &commonv1.ApprovalSubject{Tool: "shell.bash", Command: strings.Repeat("x", 2*shownCharacters)}
	for _, tt := range []struct {
		name, before string
		answers      []string // each is typed when the question is shown
		yes          bool
	}{
		{"a yes typed before", "y\n", []string{"\n"}, false},
		{"half a line typed before", "ye", []string{"\n"}, false},
		{"a yes typed after", "n\n", []string{"y\n"}, true},
		{"a yes typed with an s", "", []string{"s\ny\n", "\n"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			control, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer control.Close()
			if _, err := control.WriteString(tt.before); err != nil {
				t.Fatal(err)
			}
			echoed := bufio.NewReader(control)
			if tt.before != "" { // the terminal's echo shows that the input has arrived
				if _, err := echoed.Peek(len(tt.before)); err != nil {
					t.Fatal(err)
				}
			}
			answered := make(chan bool, 1)
			go func() {
				answered <- ask(terminal, long, nil).Yes
				terminal.Close()
			}()
			for _, answer := range tt.answers {
				until(t, echoed, "shows all of it] ")
				if _, err := control.WriteString(answer); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = io.Copy(io.Discard, echoed) // the end of a terminal is an error on Linux
			if yes := <-answered; yes != tt.yes {
				t.Errorf("the answer counts as %v, want %v", yes, tt.yes)
			}
		})
	}
}

// until reads up to the end of a text.
func until(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	var got strings.Builder
	for !strings.HasSuffix(got.String(), text) {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("after %q: %v", got.String(), err)
		}
		got.WriteByte(b)
	}
}
