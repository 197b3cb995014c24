// Package cli is the kaged command, for people and scripts. Package daemon has the daemon that it starts; everything
// else is a client of the public API. Each noun is a package below; kit has their shared parts.
//
// stdout has only results; progress, logs and errors go to stderr. kit/exit.go has the exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/seal"
	"kaged.dev/pkg/version"
	"kaged.dev/services/kaged/internal/cli/approvals"
	"kaged.dev/services/kaged/internal/cli/auth"
	"kaged.dev/services/kaged/internal/cli/cage"
	"kaged.dev/services/kaged/internal/cli/certs"
	"kaged.dev/services/kaged/internal/cli/configfile"
	"kaged.dev/services/kaged/internal/cli/debug"
	"kaged.dev/services/kaged/internal/cli/doctor"
	"kaged.dev/services/kaged/internal/cli/issue"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/cli/logs"
	"kaged.dev/services/kaged/internal/cli/lsp"
	"kaged.dev/services/kaged/internal/cli/migrate"
	"kaged.dev/services/kaged/internal/cli/operator"
	"kaged.dev/services/kaged/internal/cli/project"
	"kaged.dev/services/kaged/internal/cli/ps"
	"kaged.dev/services/kaged/internal/cli/run"
	"kaged.dev/services/kaged/internal/cli/session"
	"kaged.dev/services/kaged/internal/cli/setup"
	"kaged.dev/services/kaged/internal/cli/token"
	"kaged.dev/services/kaged/internal/cli/tools"
	"kaged.dev/services/kaged/internal/cli/up"
)

// Main runs the command of this process and returns its exit code.
func Main(modules []host.Module) int {
	seal.Process()
	ctx, hurry, stop := host.Interrupts(context.Background())
	defer stop()
	getenv, err := config.WithFiles(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kaged:", kit.Sentence(err))
		return kit.ExitFailed
	}
	return Run(ctx, kit.App{
		Args: os.Args[1:], Getenv: getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Modules: modules,
		Hurry: hurry,
	})
}

// Run runs the command until it is done or ctx ends, and returns its exit code.
func Run(ctx context.Context, a kit.App) int {
	a.Stdout, a.Stderr = kit.Screen(a.Stdout), kit.Screen(a.Stderr)
	root := root(a)
	root.SetArgs(a.Args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	return a.ExitCode(root.ExecuteContext(ctx))
}

func root(a kit.App) *cobra.Command {
	var p kit.Places
	root := &cobra.Command{
		Use:   "kaged",
		Short: "Run coding agents on your own machine",
		Long: "kaged runs the coding agents a project describes in .kaged/project.yaml, streams everything they do,\n" +
			"and keeps a record. Begin with `kaged init` in a project, then `kaged up`, or `kaged run \"PROMPT\"`.\n\n" +
			kit.ExitCodes,
		Version:       version.Full(),
		SilenceErrors: true, SilenceUsage: true,
		Args: kit.Known, RunE: kit.Help, PersistentPreRunE: p.Given,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return kit.Misused(cmd, "%s", kit.FlagSentence(cmd, err))
	})
	root.PersistentFlags().StringVar(&p.ConfigFlag, "config", config.DefaultPath(a.Getenv),
		"the operator's configuration (KAGED_CONFIG)")
	root.PersistentFlags().StringVar(&p.DataDirFlag, "data-dir", config.DefaultDataDir(a.Getenv),
		"the data directory (KAGED_DATA_DIR)")
	root.AddCommand(
		up.Command(a, &p), run.Command(a, &p), setup.Command(a, &p), ps.Command(a, &p), ps.KillCommand(a, &p),
		ps.SpendCommand(a, &p),
		project.Command(a, &p), session.Command(a, &p), session.CancelCommand(a, &p), session.CompactCommand(a, &p),
		auth.Command(a, &p),
		issue.Command(a, &p), lsp.Command(a, &p), debug.Command(a, &p), tools.Command(a, &p), cage.Command(a, &p),
		doctor.Command(a, &p), configfile.Command(a, &p), schema(a.Stdout), versionCommand(a), token.Command(a, &p),
		certs.Command(a), migrate.Command(a, &p),
		approvals.Command(a, &p), logs.Command(a, &p), operator.Command(a, &p),
	)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetHelpCommand(explain())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // like all other groups it refuses unknown commands
			cmd.Args, cmd.RunE = kit.Known, kit.Help
		}
	}
	return root
}

// explain returns the command that prints the help of another command.
func explain() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command",
		RunE: func(cmd *cobra.Command, list []string) error {
			about, unknown, err := cmd.Root().Find(list)
			if err != nil || len(unknown) > 0 {
				return errors.Join(err, kit.Known(about, unknown))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// schema returns the command that prints the JSON Schema with which editors check a project file.
func schema(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the project file", Args: kit.Nothing,
		RunE: func(*cobra.Command, []string) error {
			text, err := dsl.Schema(dsl.Version)
			if err == nil {
				_, err = fmt.Fprintf(out, "%s\n", text)
			}
			return err
		},
	}
}

func versionCommand(a kit.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(a.Stdout, "kaged", version.Full())
			return err
		},
	}
}
