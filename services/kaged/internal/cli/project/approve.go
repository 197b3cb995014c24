// Package project is `kaged project`, and the approval of project files that other commands use.
package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/cli/up"
)

func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("project", "Approve the grants of a project's files")
	cmd.AddCommand(projectApprove(a, p))
	return cmd
}

func projectApprove(a kit.App, p *kit.Places) *cobra.Command {
	var f up.Target
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve [flags] [DIR]",
		Short: "Show the grants of a project's files beyond the approved version, and approve them",
		Long: "Shows the grants of the files of the project in DIR (default: the nearest one upwards) beyond the approved " +
			"version,\n" +
			"and the changed prompts that agents can write, with the diff, and asks whether to approve them. Without a " +
			"terminal\n" +
			"it needs --yes. Only the shown files can be approved: if they change meanwhile, they are shown again.\n" +
			"An agent without a cage that has a shell can run this command, too.",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return kit.Misused(cmd, "one project's folder is needed")
			}
			return kit.UrlFlag(cmd, f.URL)
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			f.Project = "."
			if len(list) > 0 {
				f.Project = list[0]
			} else if found := kit.ProjectAbove(kit.Absolute("."), a.Getenv("HOME")); found != "" {
				f.Project = found
			}
			c, done, err := up.Connect(cmd.Context(), a, p, f)
			if err != nil {
				return err
			}
			return errors.Join(approveProject(cmd.Context(), a, c, f.Project, yes), done())
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "approve without asking")
	cmd.Flags().
		StringVar(&f.URL, "url", "", "the URL of another daemon, which needs no sign-in (default: the daemon "+
			"of the data directory)")
	return cmd
}

// approveProject approves the files of the project in a folder, if they need approval.
func approveProject(ctx context.Context, a kit.App, c *client.Client, dir string, yes bool) error {
	var loaded struct {
		ID string
	}
	if err := Load(ctx, a, c, dir, yes, &loaded); err != nil {
		return err
	}
	path := "/api/v1/projects/" + loaded.ID
	for range approvalTries {
		var now struct {
			State        string
			ApprovedHash string `json:"approved_hash"`
			PendingHash  string `json:"pending_hash"`
			Widened      []widening
			Diff         string
		}
		if err := c.Do(ctx, http.MethodGet, path+"/approval", nil, &now); err != nil {
			return err
		}
		if now.State != "required" {
			_, err := fmt.Fprintf(a.Stdout, "%s is approved: %s\n", loaded.ID, now.ApprovedHash)
			return err
		}
		asked := pending{ProjectID: loaded.ID, Hash: now.PendingHash, Widened: now.Widened, Diff: now.Diff}
		if err := approvePending(ctx, a, c, asked, dir, yes); err != nil {
			return err
		}
	}
	return errKeepsChanging
}

// approvalTries is the maximum number of times that files are shown again because they changed during the approval.
const approvalTries = 5

var errKeepsChanging = fault.New(
	fault.Conflict,
	"The project's files changed during each approval; try again when they are stable.",
)

// pending are files that need approval, and their grants.
type pending struct {
	ProjectID, Hash, Diff string
	Widened               []widening
}

// widening is one grant of files beyond the approved version. From and To may be "".
type widening struct {
	AgentPath string `json:"agent_path"`
	Key       string
	From, To  string
}

// pendingOf returns the files that need approval from a conflict, and false for any other error.
func pendingOf(err error) (pending, bool) {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Conflict {
		return pending{}, false
	}
	text := func(m map[string]any, key string) string {
		s, _ := m[key].(string)
		return s
	}
	if reason := text(f.Details, "reason"); reason != "approval_required" && reason != "approval_changed" {
		return pending{}, false
	}
	p := pending{ProjectID: text(f.Details, "project_id"), Hash: text(f.Details, "hash"), Diff: text(f.Details, "diff")}
	list, _ := f.Details["widened"].([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		p.Widened = append(p.Widened, widening{text(m, "agent_path"), text(m, "key"), text(m, "from"), text(m, "to")})
	}
	return p, true
}

// Load registers the project in a folder and decodes the answer into loaded. If files need approval, it shows them and
// asks; without a terminal or a yes it fails with exit code 2.
func Load(ctx context.Context, a kit.App, c *client.Client, dir string, yes bool, loaded any) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for range approvalTries {
		err := c.Do(ctx, http.MethodPost, "/api/v1/projects/load", map[string]any{"path": abs}, loaded)
		asked, needed := pendingOf(err)
		switch {
		case needed:
			if err := approvePending(ctx, a, c, asked, dir, yes); err != nil {
				return err
			}
			continue
		case !errors.Is(err, fault.NotFound):
			return err
		case fault.From(err).Details["missing"] == "folder":
			return kit.NoFolder(dir)
		}
		return kit.NoProject(dir)
	}
	return errKeepsChanging
}

// approvePending shows files that need approval, asks, and approves them. If files changed meanwhile, it returns no
// error, and the caller tries again.
func approvePending(ctx context.Context, a kit.App, c *client.Client, asked pending, dir string, yes bool) error {
	if !yes {
		if err := askPending(ctx, a, asked, dir); err != nil {
			return err
		}
	}
	var done struct{ Hash string }
	err := c.Do(
		ctx,
		http.MethodPost,
		"/api/v1/projects/"+asked.ProjectID+"/approve",
		map[string]any{"hash": asked.Hash},
		&done,
	)
	if _, changed := pendingOf(err); changed {
		fmt.Fprintln(a.Stderr, "kaged: the project's files changed meanwhile")
		return nil
	}
	if err == nil {
		fmt.Fprintf(a.Stderr, "kaged: approved %s\n", termtext.Line(done.Hash))
	}
	return err
}

// askPending shows files that need approval on the terminal and asks for approval. Without a terminal or a yes it fails
// with exit code 2.
func askPending(ctx context.Context, a kit.App, asked pending, dir string) error {
	terminal := a.Terminal()
	if terminal == nil {
		asked.show(a.Stderr)
		return kit.Usage(
			"the project's files need approval, and there is no terminal to ask on; `kaged project approve %s` asks on one, "+
				"and --yes approves them unseen",
			kit.ShellQuote(dir),
		)
	}
	defer terminal.Close()
	defer context.AfterFunc(ctx, func() { terminal.Close() })()
	asked.show(terminal)
	answer, err := kit.NewQuestions(terminal).Ask("Approve these files? [y/N] ")
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	switch answer {
	case "y", "yes":
		return nil
	}
	return kit.Usage(
		"the project's files were not approved; undo the change, or run with the approved version through a session " +
			"that exists",
	)
}

// show writes the diff and then the grants of the files, so that the grants stay on the screen. Agents may have written
// both: invisible characters are escaped, and each value is one line.
func (p pending) show(w io.Writer) {
	fmt.Fprintf(w, "The project's files need approval (%s):\n\n", termtext.Line(p.Hash))
	if p.Diff != "" {
		for line := range strings.Lines(p.Diff) {
			fmt.Fprintf(w, "  %s\n", termtext.Lines(strings.TrimRight(line, "\n")))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "They grant, beyond the approved version:")
	for _, g := range p.Widened {
		where := g.AgentPath
		if where == "" {
			where = "the project"
		}
		from := ""
		if g.From != "" {
			from = termtext.Line(g.From) + " → "
		}
		fmt.Fprintf(w, "  %s: %s: %s%s\n", termtext.Line(where), termtext.Line(g.Key), from, termtext.Line(orNothing(g.To)))
	}
}

func orNothing(text string) string {
	if text == "" {
		return "none any more"
	}
	return text
}
