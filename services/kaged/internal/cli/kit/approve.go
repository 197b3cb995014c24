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
	"kaged.dev/pkg/termtext"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Approver returns a function that answers requests for approval of calls. The answer is yes if yes is true, otherwise
// that of the person at the terminal, and no without a terminal. The end of ctx ends the question with a refusal.
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
		if ask(terminal, subject, nil).Yes {
			return nil
		}
		return fault.New(fault.ApprovalDenied, "The operator did not approve %s.", subject.GetTool())
	}
}

// Offer is a standing approval that the answer to a question can create.
type Offer struct{ Kind, Text string }

// Choice is the answer to a question: no, or yes once, or yes for a session or project and a kind of call.
type Choice struct {
	Yes         bool
	Scope, Kind string
}

// Choose asks as [App.Approver] does, and also offers standing approvals. It fails with approval_required without a
// terminal.
func (a App) Choose(ctx context.Context, yes bool, subject *commonv1.ApprovalSubject, offers []Offer) (Choice, error) {
	terminal := io.ReadWriteCloser(nil)
	if !yes && len(offers) > 0 {
		terminal = a.Terminal()
	}
	if terminal == nil {
		err := a.Approver(ctx, yes)(subject)
		if err != nil && fault.CodeOf(err) == fault.ApprovalRequired {
			return Choice{}, err
		}
		return Choice{Yes: err == nil}, nil
	}
	defer terminal.Close()
	defer context.AfterFunc(ctx, func() { terminal.Close() })()
	return ask(terminal, subject, offers), nil
}

// Terminal opens the terminal on which the command was started. It returns nil without a terminal: then neither input
// nor errors are on a terminal.
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

// ask shows a call and returns the answer. Anything but a yes is a no; an s shows the complete text and asks again.
func ask(terminal io.ReadWriter, subject *commonv1.ApprovalSubject, offers []Offer) Choice {
	cut := describe(terminal, subject, shownCharacters, shownLines)
	for i, o := range offers {
		fmt.Fprintf(terminal, "  s%d or p%d: yes, in this session or this project from now on:\n      %s\n",
			i+1, i+1, termtext.Line(o.Text))
	}
	question := "Do it? [y/N"
	for i := range offers {
		question += fmt.Sprintf("/s%d/p%d", i+1, i+1)
	}
	if cut {
		question += ", s shows all of it"
	}
	q := NewQuestions(terminal)
	for {
		answer, err := q.Ask(question + "] ")
		switch {
		case err != nil:
			return Choice{}
		case answer == "y" || answer == "yes":
			return Choice{Yes: true}
		case answer == "s":
			describe(terminal, subject, math.MaxInt, math.MaxInt)
			continue
		}
		for i, o := range offers {
			switch answer {
			case fmt.Sprintf("s%d", i+1):
				return Choice{Yes: true, Scope: "session", Kind: o.Kind}
			case fmt.Sprintf("p%d", i+1):
				return Choice{Yes: true, Scope: "project", Kind: o.Kind}
			}
		}
		return Choice{}
	}
}

// questions asks questions on a terminal.
type questions struct {
	terminal io.ReadWriter
	answers  *bufio.Reader
}

func NewQuestions(terminal io.ReadWriter) *questions {
	return &questions{terminal, bufio.NewReader(terminal)}
}

// Ask writes a question and returns the line typed after it, in lower case and without surrounding spaces. It discards
// input that was typed before the question.
func (q *questions) Ask(question string) (string, error) {
	if file, ok := q.terminal.(*os.File); ok {
		_, _ = q.answers.Discard(q.answers.Buffered())
		DiscardInput(file)
	}
	fmt.Fprint(q.terminal, question)
	answer, err := q.answers.ReadString('\n')
	return strings.ToLower(strings.TrimSpace(answer)), err
}
