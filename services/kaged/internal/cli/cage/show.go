package cage

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/cli/tools"
	"kaged.dev/services/kaged/internal/workbench"
)

func cageShow(a kit.App, p *kit.Places) *cobra.Command {
	var project string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [flags] [AGENT_PATH]",
		Short: "Show the rights of an agent of the project, before any run",
		Long: "Shows in plain words the grants of an agent's cage: the paths it may read and write, the hosts " +
			"it\n" +
			"may reach, the places that stay read-only, with the reason, its tools, and its limits. The agent\n" +
			"is named by its tree path; the default is the root agent. An agent never has more rights than the\n" +
			"agents above it. Paths are checked as for a cage: a missing path or a link is an error. No daemon\n" +
			"is needed.",
		Example: "  kaged cage show primary.subagents.tester\n  kaged cage show --project ~/src/demo --json",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return kit.Misused(cmd, "one agent's tree path is needed, such as primary.subagents.tester")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			agent := ""
			if len(list) > 0 {
				agent = list[0]
			}
			b, err := tools.Bench(a, p, tools.Flags{Project: a.ProjectOf(cmd, project)}, ownpath.Path{})
			if err != nil {
				return err
			}
			shown, err := b.Cage(cmd.Context(), agent, p.DataDir)
			if err := errors.Join(err, b.Close()); err != nil {
				return err
			}
			a.Warn(shown.Warnings)
			if asJSON {
				return kit.WriteJSON(a.Stdout, shown)
			}
			return writeCage(a.Stdout, shown)
		},
	}
	cmd.Flags().StringVar(&project, "project", ".", kit.ProjectUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as one JSON object")
	return cmd
}

// writeCage writes an agent's permissions for people: first a sentence, then one permission per line.
func writeCage(w io.Writer, c workbench.Cage) error {
	if !c.Caged {
		_, err := fmt.Fprintf(
			w,
			"%s of %s has no cage: it has all rights of kaged on this machine.\n",
			c.Agent,
			c.Project,
		)
		return err
	}
	fmt.Fprintf(w, "%s of %s %s.\n\n", c.Agent, c.Project, termtext.Line(c.May))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range c.Says[1:] {
		fmt.Fprintf(tab, "%s\t%s\n", line.About, termtext.Line(line.Text))
	}
	return tab.Flush()
}
