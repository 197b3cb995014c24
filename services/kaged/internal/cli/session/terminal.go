package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/termtext"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// findProcess returns the background process with this PID or id, only of one session if session is not empty.
func findProcess(ctx context.Context, c *client.Client, session, which string) (*commonv1.RunningProcess, error) {
	now, err := c.ListProcesses(ctx, &apiv1.ListProcessesRequest{})
	if err != nil {
		return nil, err
	}
	for _, p := range now.GetProcesses() {
		switch {
		case session != "" && p.GetSessionId() != session:
		case p.GetId() != which && strconv.FormatInt(p.GetPid(), 10) != which:
		case !p.GetBackground():
			return nil, fault.New(fault.Conflict,
				"The command %d is no background process: its output is its tool call's.", p.GetPid())
		default:
			return p, nil
		}
	}
	return nil, fault.New(fault.ProcessNotFound,
		"No background process of your sessions has the PID %.40q; `kaged ps` lists what runs.", which)
}

// window is this terminal while it shows a process.
type window struct {
	in      *os.File
	out     io.Writer // the terminal itself
	screen  *termtext.Program
	escape  byte
	process *client.Terminal
}

// showProcess connects this terminal to a process until the process ends or the escape key is pressed, and then
// restores the terminal.
func showProcess(ctx context.Context, a kit.App, c *client.Client, p *commonv1.RunningProcess, escape byte) error {
	t, err := c.Terminal(ctx, p.GetSessionId(), p.GetId(), 0)
	if err != nil {
		return err
	}
	defer t.Close()
	out := kit.Raw(a.Stdout)
	w := &window{in: a.Stdin.(*os.File), out: out, screen: termtext.NewProgram(out), escape: escape, process: t}
	fmt.Fprintf(a.Stderr, "kaged: process %d: %s (%s detaches, and the process continues)\n", p.GetPid(),
		kit.Brief(p.GetCommand(), 100), keyName(escape))
	ended, err := w.show(ctx)
	switch {
	case err != nil:
		return err
	case ended == nil:
		_, err = fmt.Fprintf(a.Stderr, "kaged: detached from process %d, which continues\n", p.GetPid())
		return err
	}
	_, err = fmt.Fprintf(a.Stderr, "kaged: process %d %s\n", p.GetPid(), endOf(ended))
	return err
}

// endOf returns the end of a process in words.
func endOf(e *apiv1.PtyEnded) string {
	switch {
	case e.GetReason() == "lost":
		return "was lost: the workspace was restarted"
	case e.GetReason() != "":
		return "was ended: " + termtext.Line(e.GetReason())
	case e.GetSignal() != "":
		return "was ended by " + termtext.Line(e.GetSignal())
	}
	return fmt.Sprintf("exited with %d", e.GetExitCode())
}

// leaveModes resets modes that programs set: the alternate screen, mouse reports, bracketed paste, application keys, a
// hidden cursor, colours.
const leaveModes = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>" +
	"\x1b[?7h\x1b[?25h\x1b[0m\r\n"

// show passes on output, keys and sizes until the process ends or the escape key is pressed. It returns the end of the
// process.
//
// Goroutines: one that reads keys; it ends with the first key after the process, or with the input.
func (w *window) show(ctx context.Context) (*apiv1.PtyEnded, error) {
	state, err := term.MakeRaw(int(w.in.Fd()))
	if err != nil {
		return nil, err
	}
	defer func() {
		_, _ = io.WriteString(w.out, leaveModes)
		kit.DiscardInput(w.in)                  // answers of the terminal to the program must not be read as commands
		_ = term.Restore(int(w.in.Fd()), state) // the terminal may be gone
	}()
	stop := w.follow()
	defer stop()
	left := make(chan struct{})
	go func() {
		defer close(left)
		w.keys()
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-left:
		case <-ctx.Done():
		}
		w.process.Close()
	}()
	for event, err := range w.process.Events() {
		if err != nil {
			return nil, err
		}
		if event.Ended != nil {
			return event.Ended, nil
		}
		if err := w.event(event); err != nil {
			return nil, err
		}
	}
	select {
	case <-left:
		return nil, nil
	default:
		return nil, ctx.Err()
	}
}

// event handles an event of the process's terminal.
func (w *window) event(e client.TerminalEvent) error {
	var err error
	switch {
	case e.Away:
		w.note("the connection is lost; reconnecting (%s detaches)", keyName(w.escape))
	case e.Refused != nil:
		w.note("%s", kit.Plain(e.Refused))
	case e.Position != nil && e.Position.GetMissing() > 0 && e.Position.GetOffset() > e.Position.GetReplayEnd():
		w.note("%d bytes of output were too fast for this terminal", e.Position.GetMissing())
	case e.Output != nil:
		w.screen.Replay(e.Replay)
		_, err = w.screen.Write(e.Output)
	}
	return err
}

// note writes a sentence of kaged between the output.
func (w *window) note(format string, args ...any) {
	fmt.Fprintf(w.out, "\r\nkaged: %s\r\n", termtext.Line(fmt.Sprintf(format, args...)))
}

// follow sets the size of the process's terminal to the size of this one, at once and at each change, until stop is
// called.
func (w *window) follow() (stop func()) {
	type size struct{ cols, rows int }
	read := func() (s size) {
		if cols, rows, err := term.GetSize(int(w.in.Fd())); err == nil {
			s = size{cols, rows}
		}
		return s
	}
	resize := func(s size) {
		if s.cols > 0 && s.rows > 0 {
			_ = w.process.Resize(s.cols, s.rows) // the events report a lost connection
		}
	}
	resize(read())
	sizes, forget := kit.Sizes(read)
	done := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-sizes:
				resize(s)
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-done
		forget()
	}
}

// keys passes on keys until the escape key or the end of input.
func (w *window) keys() {
	buf := make([]byte, 4<<10)
	for {
		n, err := w.in.Read(buf)
		part := buf[:n]
		at := -1
		if w.escape != 0 {
			at = bytes.IndexByte(part, w.escape)
		}
		if at >= 0 {
			part = part[:at]
		}
		if len(part) > 0 {
			_, _ = w.process.Write(part) // without a connection keys are lost
		}
		if at >= 0 || err != nil {
			return
		}
	}
}
