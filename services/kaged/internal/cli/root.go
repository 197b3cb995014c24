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
	"os/signal"
	"syscall"

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
}

// Main runs the command of this process and returns its exit code.
func Main(modules []host.Module) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return App{
		Args: os.Args[1:], Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Modules: modules,
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

// sentence is what a person is shown of an error: the message, and the code where there is one to look up.
func sentence(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return fmt.Sprintf("%s (%s)", f.Msg, f.Code)
	}
	return err.Error()
}

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
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
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{exitUsage, err} })
	root.PersistentFlags().StringVar(&p.config, "config", config.DefaultPath(a.Getenv), "the operator's configuration (KAGED_CONFIG)")
	root.PersistentFlags().StringVar(&p.dataDir, "data-dir", config.DefaultDataDir(a.Getenv), "the data directory (KAGED_DATA_DIR)")
	root.AddCommand(a.up(&p), a.run(&p), a.init(&p), a.auth(&p), a.tools(&p), a.configCommand(&p), a.version())
	return root
}

// args turns cobra's complaint about arguments into a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if err := check(cmd, list); err != nil {
			return usage("%s; see `%s --help`", err, cmd.CommandPath())
		}
		return nil
	}
}

func (a App) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(a.Stdout, "kaged", version.String())
			return nil
		},
	}
}
