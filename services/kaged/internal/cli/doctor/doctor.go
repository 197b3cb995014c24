// Package doctor is `kaged doctor`.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/termtext"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/kaged/internal/checkup"
	"kaged.dev/services/kaged/internal/cli/configfile"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/workbench"
)

func Command(a kit.App, p *kit.Places) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and suggest fixes",
		Long: "Makes a cage as an agent would get it and names for each layer the enforcing mechanism, or why it is " +
			"missing; then\n" +
			"checks the data directory, the configuration, the targets of the model aliases, PostgreSQL, the address of a\n" +
			"daemon, and the server of each language, with and without a cage. For each gap it prints a fix. It makes no\n" +
			"changes and uses no network.\n\n" +
			"Exits 0 if every needed part is there, 1 if cages cannot be made or kaged could not start.",
		Args: kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := look(cmd.Context(), a, p)
			if err := cmd.Context().Err(); err != nil {
				return err // an incomplete report must not be printed
			}
			write := writeReport
			if asJSON {
				write = func(w io.Writer, r checkup.Report) error { return kit.WriteJSON(w, r) }
			}
			err := write(a.Stdout, report)
			if err == nil && !report.OK {
				err = kit.Exit(kit.ExitFailed, nil)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as one JSON object")
	return cmd
}

func look(ctx context.Context, a kit.App, p *kit.Places) checkup.Report {
	return checkup.Look(ctx, checkup.Machine{
		ConfigPath: p.Config.String(), DataDir: p.DataDir.String(),
		Listen: cmp.Or(a.Getenv("KAGED_LISTEN"), config.DefaultListen), Getenv: a.Getenv,
		Probe: func(ctx context.Context) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
			return probe(ctx, a, p)
		}, Services: func(f *config.File) error { return configfile.CheckServices(a, f) },
		LanguageServers: func(ctx context.Context) ([]*lsppoolv1.FoundServer, error) {
			return languageServers(ctx, a, p)
		},
		Gateway: func(ctx context.Context) bool { return a.GatewayAnswers(ctx, p) }, Container: checkup.ContainerOf(a.Getenv),
	})
}

// probe requests the machine's support for cages from a supervisor in this process.
func probe(ctx context.Context, a kit.App, p *kit.Places) (found *sandboxsupervisorv1.ProbeCagesResponse, err error) {
	box, err := workbench.OpenSandbox(
		workbench.Options{ConfigPath: p.Config, Getenv: a.Getenv, Stderr: io.Discard, Modules: a.Modules},
	)
	if err != nil {
		return nil, err
	}
	found, err = box.Probe(ctx)
	return found, cmp.Or(err, box.Close())
}

// languageServers finds language servers with a pool in this process.
func languageServers(ctx context.Context, a kit.App, p *kit.Places) ([]*lsppoolv1.FoundServer, error) {
	opts := workbench.Options{ConfigPath: p.Config, Getenv: a.Getenv, Stderr: io.Discard, Modules: a.Modules}
	return workbench.FindServers(ctx, opts)
}

// Uncageable returns the reason, in one sentence, why agents cannot be caged on this machine, "" if they can. It leaves
// other problems to the next step.
func Uncageable(ctx context.Context, a kit.App, p *kit.Places) string {
	found, err := probe(ctx, a, p)
	if err != nil || found.GetTier() != "" {
		return ""
	}
	return strings.TrimSuffix(found.GetUnavailable(), ".") + "."
}

// WarnUncageable prints a warning to stderr if agents cannot be caged on this machine.
func WarnUncageable(ctx context.Context, a kit.App, p *kit.Places) {
	if reason := Uncageable(ctx, a, p); reason != "" {
		fmt.Fprintf(
			a.Stderr,
			"kaged: warning: agents cannot be caged on this machine: %s `kaged doctor` says how to fix it\n",
			reason,
		)
	}
}

// writeReport writes the checks as tables for people, and below them a fix for each gap.
func writeReport(w io.Writer, r checkup.Report) error {
	if r.Cages.Elsewhere != "" {
		fmt.Fprintf(w, "Cages are made %s\n\n", r.Cages.Elsewhere)
	} else if r.Cages.Tier == "" {
		fmt.Fprintf(w, "Cages cannot be made here: %s\n\n", r.Cages.Unavailable)
	} else {
		fmt.Fprintf(w, "Cages can be made here (%s).\n\n", r.Cages.Tier)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Cages.Layers) > 0 {
		fmt.Fprintln(tab, "LAYER\tSTATE\tBY / FIX")
		said := map[string]bool{} // the fixes already written: one that fixes several layers is written once
		for _, l := range r.Cages.Layers {
			cell := byOrFix(l.By, l.Fix)
			if l.By == "" && said[l.Fix] {
				cell = "fix: as above"
			}
			said[l.Fix] = l.Fix != "" && (l.By == "" || said[l.Fix])
			fmt.Fprintf(tab, "%s\t%s\t%s\n", l.Name, l.State, cell)
		}
		fmt.Fprintln(tab)
	}
	fmt.Fprintln(tab, "CHECK\tSTATE\tFOUND")
	for _, c := range r.Checks {
		fmt.Fprintf(tab, "%s\t%s\t%s\n", c.Name, c.State, termtext.Line(c.Detail))
	}
	writeServers(tab, r)
	if err := tab.Flush(); err != nil {
		return err
	}
	writeLayerGaps(w, r.Cages.Layers)
	for _, c := range r.Checks {
		if c.Fix != "" {
			writeGap(w, c.Name, "", c.Fix)
		}
	}
	for _, s := range r.LanguageServers {
		if fix := s.Fix(); fix != "" && r.Cages.Tier != "" {
			writeGap(w, s.Lang, s.CageReason, fix)
		}
	}
	return nil
}

// writeServers writes the table of language servers.
func writeServers(w io.Writer, r checkup.Report) {
	if len(r.LanguageServers) == 0 {
		return
	}
	fmt.Fprintln(w, "\nLANGUAGE\tSERVER\tIN A CAGE\tINSTALLED BY")
	for _, s := range r.LanguageServers {
		program, inCage := cmp.Or(s.Program, "-"), "-"
		switch {
		case s.InCage:
			inCage = "yes"
		case s.Program != "":
			inCage = "no"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", termtext.Line(s.Lang), termtext.Line(program), inCage,
			termtext.Line(s.Install))
	}
}

// writeLayerGaps writes the layers that are not enforced and their fixes. Layers with the same reason and fix are
// written together.
func writeLayerGaps(w io.Writer, layers []checkup.Layer) {
	type gap struct{ reason, fix string }
	names := map[gap][]string{}
	var order []gap
	for _, l := range layers {
		if l.State == checkup.Enforced {
			continue
		}
		g := gap{l.Reason, l.Fix}
		if names[g] == nil {
			order = append(order, g)
		}
		names[g] = append(names[g], l.Name)
	}
	for _, g := range order {
		writeGap(w, strings.Join(names[g], ", "), g.reason, g.fix)
	}
}

func byOrFix(by, fix string) string {
	switch {
	case by != "":
		return by
	case fix != "":
		return "fix: " + fix
	}
	return "-"
}

func writeGap(w io.Writer, name, reason, fix string) {
	fmt.Fprintf(w, "\n%s", name)
	if reason != "" {
		fmt.Fprintf(w, ": %s", termtext.Lines(reason))
	}
	fmt.Fprintln(w)
	if fix != "" {
		fmt.Fprintf(w, "  fix: %s\n", termtext.Lines(fix))
	}
}
