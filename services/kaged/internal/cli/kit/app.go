// Package kit is the common part of the commands: their process, flags, exit codes, questions, and the form of values.
package kit

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/termtext"
)

// App is the command with all its inputs and outputs, so that tests can run it in their process.
type App struct {
	// Args are the arguments without the program's name.
	Args []string
	// Getenv reads the environment.
	Getenv func(string) string
	// Stdin, Stdout and Stderr are the standard streams.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Modules are the services of a daemon.
	Modules []host.Module
	// Hurry is closed to interrupt running work, after the context of [App.Run] has ended; nil means never.
	Hurry <-chan struct{}
}

// ExitCode prints the sentence of an error, unless the error is silent, and returns its exit code.
func (a App) ExitCode(err error) int {
	if err != nil && !silent(err) {
		fmt.Fprintln(a.Stderr, "kaged:", termtext.Lines(SentenceFor(a.Stderr, err)))
	}
	return CodeOf(err)
}

// Sentence returns an error in the form for a log or a pipe: the message, the code, and below it the positions in the
// project file, or the known names, if the error has them.
func Sentence(err error) string { return sentence(err, true) }

// Plain returns [Sentence] without the code, for a terminal.
func Plain(err error) string { return sentence(err, false) }

// SentenceFor returns an error in the form for a stream: [Plain] for a terminal, otherwise [Sentence].
func SentenceFor(w io.Writer, err error) string { return sentence(err, !IsTerminal(w)) }

func sentence(err error, withCode bool) string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err.Error()
	}
	code := ""
	if withCode {
		code = fmt.Sprintf(" (%s)", f.Code)
	}
	var b strings.Builder
	b.WriteString(f.Msg + code)
	if agents, _ := f.Details["agents"].([]any); f.Code == fault.NotFound && len(agents) > 0 {
		b.WriteString(" It has:")
		for _, name := range agents {
			fmt.Fprintf(&b, "\n  %v", name)
		}
	}
	if places, _ := f.Details["errors"].([]any); f.Code == fault.DSLInvalid && len(places) > 0 {
		b.Reset()
		b.WriteString("The project file does not compile." + code)
		for _, item := range places {
			e, _ := item.(map[string]any)
			b.WriteString("\n  " + place(e))
		}
	}
	return b.String()
}

// place returns a position in a file with the mistake there. A missing file has no lines.
func place(e map[string]any) string {
	if fmt.Sprint(e["line"]) == "0" {
		return fmt.Sprintf("%v: %v", e["file"], e["reason"])
	}
	return fmt.Sprintf("%v:%v:%v: %v", e["file"], e["line"], e["column"], e["reason"])
}
