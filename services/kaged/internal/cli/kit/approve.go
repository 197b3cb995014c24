package kit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Approver returns the function that answers questions about calls that need an operator's approval: yes without a
// question if the command line said so, the person at the terminal, or no without a terminal. The end of ctx ends the
// question, with a refusal.
func (a App) Approver(ctx context.Context, yes bool) func(*commonv1.ApprovalSubject) error {
	return func(subject *commonv1.ApprovalSubject) error {
		if yes {
			return nil
		}
		terminal := a.Terminal()
		if terminal == nil {
			return fault.New(
				fault.ApprovalRequired,
				"%s needs approval, and there is no terminal to ask on; --yes approves it. %s",
				subject.GetTool(),
				strings.Join(subject.GetReasons(), " "),
			)
		}
		defer terminal.Close()
		defer context.AfterFunc(ctx, func() { terminal.Close() })()
		if ask(terminal, subject) {
			return nil
		}
		return fault.New(fault.ApprovalDenied, "The operator did not approve %s.", subject.GetTool())
	}
}

// Terminal opens the terminal the command was started on, nil without one: input and errors both go elsewhere.
func (a App) Terminal() io.ReadWriteCloser {
	if !IsTerminal(a.Stdin) && !IsTerminal(a.Stderr) {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return tty
}

// AtTerminal reports whether [App.terminal] has a terminal.
func (a App) AtTerminal() bool {
	terminal := a.Terminal()
	if terminal == nil {
		return false
	}
	terminal.Close()
	return true
}

// ask shows a call and returns whether the answer was yes. Any other answer is no; an s shows the text that was cut and
// asks again.
func ask(terminal io.ReadWriter, subject *commonv1.ApprovalSubject) bool {
	cut := describe(terminal, subject, shownCharacters, shownLines)
	q := NewQuestions(terminal)
	for {
		question := "Do it? [y/N] "
		if cut {
			question = "Do it? [y/N, s shows all of it] "
		}
		answer, err := q.Ask(question)
		if err != nil {
			return false
		}
		switch answer {
		case "y", "yes":
			return true
		case "s":
			describe(terminal, subject, math.MaxInt, math.MaxInt)
		default:
			return false
		}
	}
}

// questions asks on a terminal.
type questions struct {
	terminal io.ReadWriter
	answers  *bufio.Reader
}

func NewQuestions(terminal io.ReadWriter) *questions {
	return &questions{terminal, bufio.NewReader(terminal)}
}

// Ask writes a question and returns the line that is typed after it, in lower case and without spaces around it. Input
// that was typed before the question is discarded: it does not answer it.
func (q *questions) Ask(question string) (string, error) {
	if file, ok := q.terminal.(*os.File); ok {
		_, _ = q.answers.Discard(q.answers.Buffered())
		discardInput(file)
	}
	fmt.Fprint(q.terminal, question)
	answer, err := q.answers.ReadString('\n')
	return strings.ToLower(strings.TrimSpace(answer)), err
}
