// Package cli is the kaged command: what people type, and what scripts rely on. The daemon it starts is package daemon's,
// everything else is a client of the public API.
//
// stdout belongs to results; progress, logs and errors go to stderr. exit.go has the exit codes.
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
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/seal"
	"kaged.dev/pkg/termtext"
	"kaged.dev/pkg/version"
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
	seal.Process()
	ctx, hurry, stop := host.Interrupts(context.Background())
	defer stop()
	getenv, err := config.WithFiles(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kaged:", sentence(err))
		return exitFailed
	}
	return App{
		Args: os.Args[1:], Getenv: getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Modules: modules, Hurry: hurry,
	}.Run(ctx)
}

// Run runs the command until it is done or ctx ends, and returns its exit code.
func (a App) Run(ctx context.Context) int {
	root := a.root()
	root.SetArgs(a.Args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	return a.exitCode(root.ExecuteContext(ctx))
}

// exitCode says what is wrong, if anything is, and returns the code for it.
func (a App) exitCode(err error) int {
	if err != nil && !silent(err) {
		fmt.Fprintln(a.Stderr, "kaged:", termtext.Lines(sentence(err)))
	}
	return codeOf(err)
}

// sentence is what a person is shown of an error: the message, the code where there is one to look up, and below it the places
// in the project file, or the names there are, where the error has them.
func sentence(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", f.Msg, f.Code)
	if agents, _ := f.Details["agents"].([]any); f.Code == fault.NotFound && len(agents) > 0 {
		b.WriteString(" It has:")
		for _, name := range agents {
			fmt.Fprintf(&b, "\n  %v", name)
		}
	}
	if places, _ := f.Details["errors"].([]any); f.Code == fault.DSLInvalid && len(places) > 0 {
		b.Reset()
		fmt.Fprintf(&b, "The project file does not compile. (%s)", f.Code)
		for _, item := range places {
			e, _ := item.(map[string]any)
			b.WriteString("\n  " + place(e))
		}
	}
	return b.String()
}

// place is a place in a file and what is wrong there; a file that is not there has no lines.
func place(e map[string]any) string {
	if fmt.Sprint(e["line"]) == "0" {
		return fmt.Sprintf("%v: %v", e["file"], e["reason"])
	}
	return fmt.Sprintf("%v:%v:%v: %v", e["file"], e["line"], e["column"], e["reason"])
}

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// misused says what is wrong with the use of a command, and where it is explained.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return usage("%s; see `%s --help`", fmt.Sprintf(format, args...), cmd.CommandPath())
}

// places are the flags every command has, and where they lead, which is found once.
type places struct {
	configFlag, dataDirFlag string
	config, dataDir         ownpath.Path
}

// given resolves the places. It refuses one that is named and empty, as from a variable that is not set: it is not meant to be
// the default.
func (p *places) given(cmd *cobra.Command, _ []string) (err error) {
	for name, value := range map[string]string{"config": p.configFlag, "data-dir": p.dataDirFlag} {
		if value == "" && cmd.Flags().Changed(name) {
			return cmd.FlagErrorFunc()(cmd, fmt.Errorf("--%s is empty", name))
		}
	}
	if p.dataDirFlag == "" {
		return misused(cmd, "%s", config.NoDataDir)
	}
	if p.dataDir, err = config.Resolve(p.dataDirFlag); err == nil && p.configFlag != "" {
		p.config, err = config.Resolve(p.configFlag)
	}
	if err != nil {
		return misused(cmd, "%s", fault.From(err).Msg)
	}
	return nil
}

func (a App) root() *cobra.Command {
	var p places
	root := &cobra.Command{
		Use:   "kaged",
		Short: "Run coding agents on your own machine",
		Long: "kaged runs the coding agents a project describes in .kaged/project.yaml, streams everything they do,\n" +
			"and keeps a record. Begin with `kaged init` in a project, then `kaged up`, or `kaged run \"PROMPT\"`.\n\n" + exitCodes,
		Version:       version.Full(),
		SilenceErrors: true, SilenceUsage: true,
		Args: known, RunE: help, PersistentPreRunE: p.given,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, "%s", flagSentence(cmd, err)) })
	root.PersistentFlags().StringVar(&p.configFlag, "config", config.DefaultPath(a.Getenv), "the operator's configuration (KAGED_CONFIG)")
	root.PersistentFlags().StringVar(&p.dataDirFlag, "data-dir", config.DefaultDataDir(a.Getenv), "the data directory (KAGED_DATA_DIR)")
	root.AddCommand(a.up(&p), a.run(&p), a.init(&p), a.ps(&p), a.project(&p), a.session(&p), a.cancelCommand(&p), a.auth(&p), a.tools(&p), a.cage(&p), a.doctor(&p), a.configCommand(&p), schema(a.Stdout), a.version())
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetHelpCommand(explain())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // a group as all others are: it refuses what it does not have
			cmd.Args, cmd.RunE = known, help
		}
	}
	return root
}

// group is a command that only holds others.
func group(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: known, RunE: help}
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// explain is the help of a command by its name.
func explain() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command",
		RunE: func(cmd *cobra.Command, list []string) error {
			about, unknown, err := cmd.Root().Find(list)
			if err != nil || len(unknown) > 0 {
				return errors.Join(err, known(about, unknown))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

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

// schema prints what editors check a project file with.
func schema(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the project file", Args: nothing,
		RunE: func(*cobra.Command, []string) error {
			text, err := dsl.Schema(dsl.Version)
			if err == nil {
				_, err = fmt.Fprintf(out, "%s\n", text)
			}
			return err
		},
	}
}

func (a App) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(a.Stdout, "kaged", version.Full())
			return err
		},
	}
}
