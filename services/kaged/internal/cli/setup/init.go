// Package setup is `kaged init`.
package setup

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/kaged/internal/cli/doctor"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/scaffold"
)

// initFlags are the flags of kaged init.
type initFlags struct {
	name, cage string
	force      bool
}

func Command(a kit.App, p *kit.Places) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a folder a kaged project",
		Long: "Writes .kaged/project.yaml, .kaged/prompts/primary.md and .kaged/.gitignore, and binds the recommended " +
			"model\n" +
			"aliases in the operator's configuration to the first of Anthropic, OpenAI, Gemini and Ollama it finds. Existing " +
			"files\n" +
			"and bound aliases stay.\n\n" +
			"The agent gets a cage for the languages of the project if a cage can be made on this machine: it may write the " +
			"project,\n" +
			"read the machine's programs, and reach the package registries of those languages. Toolchains and module caches " +
			"outside\n" +
			"the system's folders are granted in .kaged/project.local.yaml, which is for this machine only and not " +
			"committed. With\n" +
			"--cage none, or where no cage can be made, the file says `cage: disabled` and why.",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return kit.Misused(cmd, "`kaged init` takes one folder, not %d", len(list))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			dir := "."
			if len(list) > 0 {
				dir = list[0]
			}
			if f.cage != "auto" && f.cage != "none" {
				return kit.Misused(cmd, "--cage is %q and must be auto or none", f.cage)
			}
			return makeProject(cmd.Context(), a, p, dir, f)
		},
	}
	cmd.Flags().StringVar(&f.name, "name", "", "the project's id, a-z, 0-9 and hyphens (default: from the folder's name)")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace existing files")
	cmd.Flags().StringVar(&f.cage, "cage", "auto", "auto: a cage if one can be made on this machine; none: no cage")
	return cmd
}

func makeProject(ctx context.Context, a kit.App, p *kit.Places, dir string, f initFlags) error {
	if outer := kit.ProjectAbove(filepath.Dir(kit.Absolute(dir)), a.Getenv("HOME")); outer != "" {
		fmt.Fprintf(
			a.Stderr,
			"kaged: note: %s lies in the project %s; commands in it now use the inner project\n",
			kit.Absolute(dir),
			outer,
		)
	}
	made, err := scaffold.Write(scaffold.Project{
		Dir: dir, Slug: f.name, Force: f.force, Cage: cageFor(ctx, a, p, dir, f.cage),
		Forbidden: []ownpath.Path{p.DataDir, p.Config},
	})
	if err != nil {
		return err
	}
	for _, path := range made.Written {
		fmt.Fprintln(a.Stdout, "wrote", path)
	}
	for _, path := range made.Kept {
		fmt.Fprintln(a.Stdout, "kept", path)
	}
	kept := slices.Contains(made.Kept, dsl.ProjectFile)
	if !kept {
		sayCage(a, made.Cage)
	}
	binding, err := scaffold.Bind(ctx, p.Config.String(), a.Getenv)
	if err != nil {
		return err
	}
	sayBinding(a, p, binding)
	a.WarnRawKeys(p.Config.String())
	next := fmt.Sprintf("The project %s is ready to be used:", made.Slug)
	switch {
	case !binding.Usable:
		next = "Then:"
	case kept: // its id is kept
		next = "The project is ready to be used:"
	}
	run := "kaged run "
	if dir != "." {
		run += "--project " + kit.ShellQuote(dir) + " "
	}
	fmt.Fprintf(a.Stdout, "\n%s\n  %s\"What does this project do?\"\n  kaged up\n", next, run)
	return nil
}

// cageFor determines the cage of the agent of a new project.
func cageFor(ctx context.Context, a kit.App, p *kit.Places, dir, choice string) scaffold.Cage {
	if choice == "none" {
		return scaffold.Cage{
			Off: "No cage: `kaged init --cage none` made this file. `kaged init --cage auto --force` writes one.",
		}
	}
	if reason := doctor.Uncageable(ctx, a, p); reason != "" {
		return scaffold.Cage{
			Off: "No cage can be made on the machine where `kaged init` made this file: " + reason +
				" `kaged doctor` says how to fix it;" +
				" `kaged init --force` then writes a cage.",
		}
	}
	return scaffold.Cage{Needs: scaffold.Look(ctx, dir, a.Getenv)}
}

// sayCage prints the rights of a new project's agent.
func sayCage(a kit.App, c scaffold.Cage) {
	if c.Off != "" {
		fmt.Fprintf(a.Stderr, "kaged: warning: the agent has no cage and all your rights. %s\n", c.Off)
		return
	}
	net := "no network"
	if len(c.Net) > 0 {
		net = "network to " + strings.Join(c.Net, ", ")
	}
	language := ""
	if len(c.Languages) > 0 {
		language = " for " + strings.Join(c.Languages, ", ")
	}
	fmt.Fprintf(
		a.Stdout,
		"caged the agent%s: it may write the project and read the machine's programs; %s\n",
		language,
		net,
	)
}

func sayBinding(a kit.App, p *kit.Places, b scaffold.Binding) {
	switch {
	case !b.Usable:
		fmt.Fprintf(
			a.Stdout,
			"\nNo model is configured yet. Set one of ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or start Ollama, "+
				"then run\n"+
				"`kaged init` again; or bind the alias yourself, to any OpenAI-compatible server too (driver openai-chat):\n"+
				"  kaged config set models.%s PROVIDER:MODEL\n"+
				"Without a key a script can play the model: see docs/reference/rehearsal.md of kaged.\n",
			scaffold.DefaultAlias,
		)
	case len(b.Aliases) == 0:
		fmt.Fprintf(a.Stdout, "kept the model aliases of %s\n", p.Config)
	default:
		from := ""
		if b.Variable != "" {
			from = ", its key taken from $" + b.Variable
		}
		fmt.Fprintf(
			a.Stdout,
			"bound %s to %s in %s%s\n",
			kit.Count(len(b.Aliases), "model alias", "model aliases"),
			b.Provider,
			p.Config,
			from,
		)
	}
}
