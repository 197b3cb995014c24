package tools

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/workbench"
)

func toolsList(a kit.App, p *kit.Places) *cobra.Command {
	var f Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List every tool, with the reason why an agent has it or not",
		Long: "Lists the catalogue with the reason of each tool's state for one agent of the project: the\n" +
			"defaults of a root agent, the operator's [default_tools], the agent's tools and profile, its " +
			"cage.\n" +
			"Without a project it shows the defaults. No daemon is needed.",
		Example: "  kaged tools list\n  kaged tools list --agent primary.subagents.reviewer\n  kaged tools list --json",
		Args:    kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Project = a.ProjectOf(cmd, f.Project)
			b, err := Bench(a, p, f, ownpath.Path{})
			if err != nil {
				return err
			}
			listing, err := b.List(cmd.Context(), f.agent)
			if err := errors.Join(err, b.Close()); err != nil {
				return err
			}
			a.Warn(listing.Warnings)
			if asJSON {
				return kit.WriteJSON(a.Stdout, listing)
			}
			return writeListing(a.Stdout, listing)
		},
	}
	f.add(cmd, "the agent, by its tree path (default: the root agent)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything about each tool, schemas included, as one JSON object")
	return cmd
}

// writeListing writes the tools as a table for people: one line per tool, with its state and the reason.
func writeListing(w io.Writer, l workbench.Listing) error {
	whose := fmt.Sprintf("%s of %s", l.Agent, l.Project)
	if l.Project == "" {
		whose = "a root agent with the defaults (there is no .kaged/project.yaml here)"
	}
	on := 0
	for _, t := range l.Tools {
		if t.Usable {
			on++
		}
	}
	fmt.Fprintf(w, "%d of %d tools can be used by %s.\n\n", on, len(l.Tools), whose)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "TOOL\tSTATE\tCATEGORY\tALIASES\tWHY")
	for _, t := range l.Tools {
		state := "off"
		if t.Usable {
			state = "on"
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", t.Name, state, t.Category, strings.Join(t.AliasNames(), " "), t.Why)
	}
	if err := tab.Flush(); err != nil || len(l.Children) == 0 {
		return err
	}
	fmt.Fprintf(w, "\nIt can call %d agents.\n\n", len(l.Children))
	tab = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "TOOL\tAGENT\tCAGED\tDESCRIPTION")
	for _, c := range l.Children {
		caged := "no"
		if c.Caged {
			caged = "yes"
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", c.Tool, c.Agent, caged, termtext.Line(c.Description))
	}
	return tab.Flush()
}
