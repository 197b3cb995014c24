package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kaged.dev/services/kaged/internal/scaffold"
)

func (a App) init(p *places) *cobra.Command {
	var project scaffold.Project
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a folder a kaged project",
		Long: "Writes .kaged/project.yaml, .kaged/prompts/primary.md and .kaged/.gitignore, and binds the recommended model\n" +
			"aliases in the operator's configuration to the first of Anthropic, OpenAI, Gemini and Ollama it finds.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			project.Dir = "."
			if len(list) > 0 {
				project.Dir = list[0]
			}
			slug, written, err := scaffold.Write(project)
			if err != nil {
				return err
			}
			for _, path := range written {
				fmt.Fprintln(a.Stdout, "wrote", path)
			}
			binding, err := scaffold.Bind(cmd.Context(), p.config, a.Getenv)
			if err != nil {
				return err
			}
			a.sayBinding(p, binding)
			next := fmt.Sprintf("The project %s is ready to be used:", slug)
			if !binding.Usable {
				next = "Then:"
			}
			fmt.Fprintf(a.Stdout, "\n%s\n  kaged run --project %s \"What does this project do?\"\n  kaged up\n", next, project.Dir)
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
			"GEMINI_API_KEY or start Ollama, then run `kaged init --force` again; or bind the alias yourself:\n"+
			"  kaged config set models.%s PROVIDER:MODEL\n", scaffold.DefaultAlias)
	case len(b.Aliases) == 0:
		fmt.Fprintf(a.Stdout, "kept the model aliases of %s\n", p.config)
	default:
		from := ""
		if b.Variable != "" {
			from = ", its key taken from $" + b.Variable
		}
		fmt.Fprintf(a.Stdout, "bound %d model aliases to %s in %s%s\n", len(b.Aliases), b.Provider, p.config, from)
	}
}
