// Package cli is the kaged command: what people type, and what scripts rely on. The daemon it starts is package daemon's,
// everything else is a client of the public API.
//
// stdout belongs to results; progress, logs and errors go to stderr. Exit codes are those of interfaces: 0 done, 1 failed,
// 2 used wrongly, 3 the data directory is in use, 130 cancelled.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/version"
	"kaged.dev/services/kaged/internal/daemon"
)

// The exit codes.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitInUse     = 3
	exitCancelled = 130
)

// App is the command with everything it takes from outside, so that tests can run it in their process.
type App struct {
	// Args are the arguments without the program's name.
	Args []string
	// Getenv reads the environment.
	Getenv func(string) string
	// Stdin, Stdout and Stderr are the standard streams.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Modules are the services a daemon runs.
	Modules []host.Module
	// Hurry is closed when what still runs is to be cut off, after the context of [App.Run] has ended; nil means never.
	Hurry <-chan struct{}
}

// Main runs the command of this process and returns its exit code.
func Main(modules []host.Module) int {
	ctx, hurry, stop := host.Interrupts(context.Background())
	defer stop()
	return App{
		Args: os.Args[1:], Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Modules: modules, Hurry: hurry,
	}.Run(ctx)
}

// exitError is an error that decides the exit code. Its message may be empty where all was said before.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Run runs the command until it is done or ctx ends, and returns its exit code.
func (a App) Run(ctx context.Context) int {
	root := a.root()
	root.SetArgs(a.Args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	return a.exitCode(root.ExecuteContext(ctx))
}

func (a App) exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	var inUse *daemon.InUseError
	if errors.As(err, &inUse) {
		fmt.Fprintln(a.Stderr, "kaged:", inUse)
		return exitInUse
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintln(a.Stderr, "kaged:", sentence(exit.err))
		}
		return exit.code
	}
	if errors.Is(err, context.Canceled) {
		return exitCancelled
	}
	fmt.Fprintln(a.Stderr, "kaged:", sentence(err))
	return exitFailed
}

// sentence is what a person is shown of an error: the message, the code where there is one to look up, and the places in
// the project file where there are any.
func sentence(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err.Error()
	}
	places, _ := f.Details["errors"].([]any)
	if f.Code != fault.DSLInvalid || len(places) == 0 {
		return fmt.Sprintf("%s (%s)", f.Msg, f.Code)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The project file does not compile. (%s)", f.Code)
	for _, item := range places {
		e, _ := item.(map[string]any)
		fmt.Fprintf(&b, "\n  %v:%v:%v: %v", e["file"], e["line"], e["column"], e["reason"])
	}
	return b.String()
}

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// misused says what is wrong with the use of a command, and where it is explained.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return usage("%s; see `%s --help`", fmt.Sprintf(format, args...), cmd.CommandPath())
}

// places are the flags every command has.
type places struct {
	config, dataDir string
}

func (a App) root() *cobra.Command {
	var p places
	root := &cobra.Command{
		Use:   "kaged",
		Short: "A self-hosted control room for coding agents",
		Long: "kaged runs the coding agents a project describes in .kaged/project.yaml, streams everything they do,\n" +
			"and keeps a record. Begin with `kaged init` in a project, then `kaged up`, or `kaged run \"PROMPT\"`.",
		Version:       version.String(),
		SilenceErrors: true, SilenceUsage: true,
		Args: known, RunE: help,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, "%s", err) })
	root.PersistentFlags().StringVar(&p.config, "config", config.DefaultPath(a.Getenv), "the operator's configuration (KAGED_CONFIG)")
	root.PersistentFlags().StringVar(&p.dataDir, "data-dir", config.DefaultDataDir(a.Getenv), "the data directory (KAGED_DATA_DIR)")
	root.AddCommand(a.up(&p), a.run(&p), a.init(&p), a.ps(&p), a.auth(&p), a.tools(&p), a.cage(&p), a.doctor(&p), a.configCommand(&p), a.version())
	return root
}

// group is a command that only holds others.
func group(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: known, RunE: help}
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// known refuses what is no command of a group, and names what may have been meant.
func known(cmd *cobra.Command, list []string) error {
	if len(list) == 0 {
		return nil
	}
	meant := ""
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if s := cmd.SuggestionsFor(list[0]); len(s) > 0 {
		meant = fmt.Sprintf(", perhaps you mean `%s %s`", cmd.CommandPath(), s[0])
	}
	return misused(cmd, "there is no command `%s %s`%s", cmd.CommandPath(), list[0], meant)
}

// nothing refuses arguments.
func nothing(cmd *cobra.Command, list []string) error {
	if len(list) > 0 {
		return misused(cmd, "`%s` takes no argument, such as %q", cmd.CommandPath(), list[0])
	}
	return nil
}

func (a App) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(a.Stdout, "kaged", version.String())
			return nil
		},
	}
}
