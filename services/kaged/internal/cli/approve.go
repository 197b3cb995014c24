package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/term"

	"kaged.dev/pkg/fault"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// approver returns what is asked about calls that need an operator's approval: yes without a question where the command
// line said so, the person at the terminal, or no where there is none. The end of ctx ends the question, with a refusal.
func (a App) approver(ctx context.Context, yes bool) func(*commonv1.ApprovalSubject) error {
	return func(subject *commonv1.ApprovalSubject) error {
		if yes {
			return nil
		}
		terminal := a.terminal()
		if terminal == nil {
			return fault.New(fault.ApprovalRequired, "%s needs approval, and there is no terminal to ask on; --yes approves it. %s",
				subject.GetTool(), strings.Join(subject.GetReasons(), " "))
		}
		defer terminal.Close()
		defer context.AfterFunc(ctx, func() { terminal.Close() })()
		if ask(terminal, subject) {
			return nil
		}
		return fault.New(fault.ApprovalDenied, "The operator did not approve %s.", subject.GetTool())
	}
}

// terminal opens the terminal the command was started on, nil if there is none: input and errors both go elsewhere.
func (a App) terminal() io.ReadWriteCloser {
	if !isTerminal(a.Stdin) && !isTerminal(a.Stderr) {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return tty
}

// atTerminal reports whether [App.terminal] has a terminal.
func (a App) atTerminal() bool {
	terminal := a.terminal()
	if terminal == nil {
		return false
	}
	terminal.Close()
	return true
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask shows what a call would do and returns whether the answer was yes. Any other answer is no; an s shows what was cut and
// asks again.
func ask(terminal io.ReadWriter, subject *commonv1.ApprovalSubject) bool {
	cut := describe(terminal, subject, shownCharacters, shownLines)
	answers := bufio.NewReader(terminal)
	for {
		if cut {
			fmt.Fprint(terminal, "Do it? [y/N, s shows all of it] ")
		} else {
			fmt.Fprint(terminal, "Do it? [y/N] ")
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			return false
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return true
		case "s":
			describe(terminal, subject, math.MaxInt, math.MaxInt)
		default:
			return false
		}
	}
}
