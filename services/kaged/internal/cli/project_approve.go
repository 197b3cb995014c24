package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/client"
)

func (a App) project(p *places) *cobra.Command {
	cmd := group("project", "Approve what a project's files grant")
	cmd.AddCommand(a.projectApprove(p))
	return cmd
}

func (a App) projectApprove(p *places) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "approve [flags] [DIR]",
		Short: "Show what a project's files grant beyond the approved version, and approve them",
		Long: "Shows what the files of the project in DIR (default: the nearest one upwards) grant beyond the version that was approved, and the prompts\n" +
			"that agents can write and that changed, with the diff, and asks whether to approve them. Without a terminal nothing is\n" +
			"approved unless --yes is given. What is approved is what was shown: if the files change meanwhile, they are shown again.\n" +
			"An agent without a cage that has a shell can run this command, too.",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return misused(cmd, "one project's folder is needed")
			}
			return urlFlag(cmd, f.url)
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			f.project = "."
			if len(list) > 0 {
				f.project = list[0]
			} else if found := projectAbove(absolute("."), a.Getenv("HOME")); found != "" {
				f.project = found
			}
			c, done, err := a.connect(cmd.Context(), p, f)
			if err != nil {
				return err
			}
			return errors.Join(a.approveProject(cmd.Context(), c, f.project, f.yes), done())
		},
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "approve without asking")
	cmd.Flags().StringVar(&f.url, "url", "", "a daemon elsewhere that needs no sign-in (default: the one on the data directory)")
	return cmd
}

// approveProject approves the files of the project in a folder, as far as they need it.
func (a App) approveProject(ctx context.Context, c *client.Client, dir string, yes bool) error {
	var loaded struct {
		ID string
	}
	if err := a.loadProject(ctx, c, dir, yes, &loaded); err != nil {
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
		if err := a.approvePending(ctx, c, asked, dir, yes); err != nil {
			return err
		}
	}
	return errKeepsChanging
}

// approvalTries is how often files that change while they are approved are shown again.
const approvalTries = 5

var errKeepsChanging = fault.New(fault.Conflict, "The project's files keep changing while they are approved; try again when they do not.")

// pending are files that need approval, and what they grant.
type pending struct {
	ProjectID, Hash, Diff string
	Widened               []widening
}

// widening is one thing that files grant beyond the approved version; From and To are "" for nothing.
type widening struct {
	AgentPath string `json:"agent_path"`
	Key       string
	From, To  string
}

// pendingOf reads what a conflict says of files that need approval; false for any other error.
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

// loadProject registers the project in a folder and reads the answer into loaded. Files that need approval are shown and asked
// about; without a terminal, or a yes, it fails with exit code 2.
func (a App) loadProject(ctx context.Context, c *client.Client, dir string, yes bool, loaded any) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for range approvalTries {
		err := c.Do(ctx, http.MethodPost, "/api/v1/projects/load", map[string]any{"path": abs}, loaded)
		asked, needed := pendingOf(err)
		switch {
		case needed:
			if err := a.approvePending(ctx, c, asked, dir, yes); err != nil {
				return err
			}
			continue
		case !errors.Is(err, fault.NotFound):
			return err
		case fault.From(err).Details["missing"] == "folder":
			return noFolder(dir)
		}
		return noProject(dir)
	}
	return errKeepsChanging
}

// approvePending shows files that need approval, asks, and approves them. Files that changed meanwhile are no error: whoever calls
// looks at them again.
func (a App) approvePending(ctx context.Context, c *client.Client, asked pending, dir string, yes bool) error {
	if !yes {
		if err := a.askPending(ctx, asked, dir); err != nil {
			return err
		}
	}
	var done struct{ Hash string }
	err := c.Do(ctx, http.MethodPost, "/api/v1/projects/"+asked.ProjectID+"/approve", map[string]any{"hash": asked.Hash}, &done)
	if _, changed := pendingOf(err); changed {
		fmt.Fprintln(a.Stderr, "kaged: the project's files changed meanwhile")
		return nil
	}
	if err == nil {
		fmt.Fprintf(a.Stderr, "kaged: approved %s\n", termtext.Line(done.Hash))
	}
	return err
}

// askPending shows files that need approval on the terminal and asks about them. Without a terminal, or a yes, it fails with exit
// code 2.
func (a App) askPending(ctx context.Context, asked pending, dir string) error {
	terminal := a.terminal()
	if terminal == nil {
		asked.show(a.Stderr)
		return usage("the project's files need approval, and there is no terminal to ask on; `kaged project approve %s` asks on one, and --yes approves them unseen",
			shellQuote(dir))
	}
	defer terminal.Close()
	defer context.AfterFunc(ctx, func() { terminal.Close() })()
	asked.show(terminal)
	fmt.Fprint(terminal, "Approve these files? [y/N] ")
	answer, err := bufio.NewReader(terminal).ReadString('\n')
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return usage("the project's files were not approved; undo the change, or run with the approved version through a session that exists")
}

// show writes the diff and, after it so that nothing scrolls them away, what the files grant. Agents wrote both, perhaps: what is
// not visible is escaped, and each value is one line.
func (p pending) show(w io.Writer) {
	fmt.Fprintf(w, "The project's files need approval (%s):\n\n", termtext.Line(p.Hash))
	if p.Diff != "" {
		for line := range strings.Lines(p.Diff) {
			fmt.Fprintf(w, "  %s\n", termtext.Lines(strings.TrimRight(line, "\n")))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "They grant, beyond what was approved:")
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

// warnNotInForce says of the project of a session that is continued which keys have no effect.
func (a App) warnNotInForce(ctx context.Context, c *client.Client, session string) {
	var of struct {
		ProjectID string `json:"project_id"`
	}
	var project struct {
		Diagnostics []struct{ Code, Message, Path string }
	}
	if c.Do(ctx, http.MethodGet, "/api/v1/sessions/"+session, nil, &of) != nil ||
		c.Do(ctx, http.MethodGet, "/api/v1/projects/"+of.ProjectID, nil, &project) != nil {
		return // the run itself says what is wrong
	}
	for _, d := range project.Diagnostics {
		if d.Code == "not_in_force" {
			a.warn([]string{termtext.Line(d.Path + ": " + d.Message)})
		}
	}
}
