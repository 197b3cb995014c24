package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/kaged/internal/scaffold"
)

func (a App) init(p *places) *cobra.Command {
	var project scaffold.Project
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a folder a kaged project",
		Long: "Writes .kaged/project.yaml, .kaged/prompts/primary.md and .kaged/.gitignore, and binds the recommended model\n" +
			"aliases in the operator's configuration to the first of Anthropic, OpenAI, Gemini and Ollama it finds. Files that\n" +
			"are there, and aliases that are bound, stay.",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return misused(cmd, "`kaged init` takes one folder, not %d", len(list))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			project.Dir = "."
			if len(list) > 0 {
				project.Dir = list[0]
			}
			made, err := scaffold.Write(project)
			if err != nil {
				return err
			}
			for _, path := range made.Written {
				fmt.Fprintln(a.Stdout, "wrote", path)
			}
			for _, path := range made.Kept {
				fmt.Fprintln(a.Stdout, "kept", path)
			}
			binding, err := scaffold.Bind(cmd.Context(), p.config.String(), a.Getenv)
			if err != nil {
				return err
			}
			a.sayBinding(p, binding)
			a.warnRawKeys(p.config.String())
			a.warnUncageable(cmd.Context(), p)
			next := fmt.Sprintf("The project %s is ready to be used:", made.Slug)
			switch {
			case !binding.Usable:
				next = "Then:"
			case slices.Contains(made.Kept, dsl.ProjectFile): // with the id it has
				next = "The project is ready to be used:"
			}
			run := "kaged run "
			if project.Dir != "." {
				run += "--project " + shellQuote(project.Dir) + " "
			}
			fmt.Fprintf(a.Stdout, "\n%s\n  %s\"What does this project do?\"\n  kaged up\n", next, run)
			return nil
		},
	}
	cmd.Flags().StringVar(&project.Slug, "name", "", "the project's id, a-z, 0-9 and hyphens (default: from the folder's name)")
	cmd.Flags().BoolVar(&project.Force, "force", false, "replace files that are there")
	return cmd
}

func (a App) sayBinding(p *places, b scaffold.Binding) {
	switch {
	case !b.Usable:
		fmt.Fprintf(a.Stdout, "\nNo model provider was found, so the project loads as pending. Set one of ANTHROPIC_API_KEY, OPENAI_API_KEY,\n"+
			"GEMINI_API_KEY or start Ollama, then run `kaged init` again; or bind the alias yourself:\n"+
			"  kaged config set models.%s PROVIDER:MODEL\n"+
			"A script can play the model, without a key: docs/reference/rehearsal.md of kaged.\n", scaffold.DefaultAlias)
	case len(b.Aliases) == 0:
		fmt.Fprintf(a.Stdout, "kept the model aliases of %s\n", p.config)
	default:
		from := ""
		if b.Variable != "" {
			from = ", its key taken from $" + b.Variable
		}
		fmt.Fprintf(a.Stdout, "bound %s to %s in %s%s\n", count(len(b.Aliases), "model alias", "model aliases"), b.Provider, p.config, from)
	}
}

// shellQuote is text as a shell takes it as one word.
func shellQuote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// plainWord is what no shell changes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)
