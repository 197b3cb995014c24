// Package run is `kaged run`: it sends a prompt to an agent and shows the agent's work on the terminal.
package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/cli/project"
	"kaged.dev/services/kaged/internal/cli/up"
)

// warnNotInForce prints the keys without effect in the project of a session that is continued.
func warnNotInForce(ctx context.Context, a kit.App, c *client.Client, session string) {
	var of struct {
		ProjectID string `json:"project_id"`
	}
	var project struct {
		Diagnostics []struct{ Code, Message, Path string }
	}
	if c.Do(ctx, http.MethodGet, "/api/v1/sessions/"+session, nil, &of) != nil ||
		c.Do(ctx, http.MethodGet, "/api/v1/projects/"+of.ProjectID, nil, &project) != nil {
		return // the run itself reports the error
	}
	for _, d := range project.Diagnostics {
		if d.Code == "not_in_force" {
			a.Warn([]string{termtext.Line(d.Path + ": " + d.Message)})
		}
	}
}

// bind binds a session to an issue, unless the number is 0.
func bind(ctx context.Context, c *client.Client, session string, issue int64) error {
	if issue == 0 {
		return nil
	}
	return c.Do(ctx, http.MethodPut, "/api/v1/sessions/"+session, map[string]any{"issue_number": issue}, nil)
}

// runFlags are the flags of kaged run.
type runFlags struct {
	up.Target
	model                     string
	maxSteps, maxOutputTokens int
	issue                     int64
	json, yes, takeover, last bool
	budgetUSD                 float64
	budgetTokens, budgetCalls int64
	budgetWalltime            time.Duration
}

func Command(a kit.App, p *kit.Places) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] PROMPT...|-",
		Short: "Send a prompt to the project's agent and stream its work",
		Long: "Posts the prompt to a session of the project and shows the agent's work: its text on stdout, " +
			"its steps on\n" +
			"stderr. Uses the daemon that runs on the data directory, or starts a temporary one, which ends " +
			"with the last command\n" +
			"that uses it. Without --project the project is the nearest folder with a project file, from the " +
			"working folder upwards.\n\n" +
			"The arguments are joined by spaces. Piped standard input is added below them; if it stays silent\n" +
			"for " + firstInput.String() + ", it is left out. An argument - stands for standard input and " +
			"waits for its end.\n\n" +
			"A call that needs approval is asked about on the terminal. Without a terminal it is denied; --yes\n" +
			"approves it. A line typed during the run steers it: the agent reads it at its next step. Project\n" +
			"files that grant more than the approved version are shown and asked about first. Without a\n" +
			"terminal kaged then exits 2; `kaged project approve` approves them. On a terminal, control, bidi\n" +
			"and other invisible characters are removed from the agent's text; a pipe and --json get the exact\n" +
			"text. Approvals show such characters as escapes. Before the run, stderr lists the cage of each\n" +
			"agent. With --json, stdout carries the frames of the session's socket as JSON lines; the first\n" +
			"line has the type \"session\" and names the session and the run.\n\n" +
			"Exits 0 when the run completed, 1 when it failed, 2 when there is no such project or session or " +
			"its file does not\n" +
			"compile, 130 when it was cancelled.",
		Example: "  kaged run fix the failing test\n  git diff | kaged run \"review this change\"\n" +
			"  kaged run -c \"now add a test\"\n" +
			"  kaged run --session 01K0000000000000000000000A \"now add a test\"",
		RunE: func(cmd *cobra.Command, list []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.Session == "" {
				f.Project = a.ProjectOf(cmd, f.Project)
			}
			prompt, err := prompt(a, cmd, list)
			if err != nil {
				return err
			}
			c, done, err := up.Connect(cmd.Context(), a, p, f.Target)
			if err != nil {
				return err
			}
			runErr := work(cmd.Context(), a, c, f, prompt)
			if err := done(); runErr == nil {
				return err
			}
			return runErr
		},
	}
	cmd.Flags().StringVar(&f.Project, "project", ".", kit.ProjectUsage)
	cmd.Flags().StringVar(&f.Session, "session", "", "continue this session (default: a new one)")
	cmd.Flags().BoolVarP(&f.last, "continue", "c", false,
		"continue the project's session that was used last and has not ended")
	cmd.Flags().StringVar(&f.URL, "url", "",
		"the URL of another daemon, which needs no sign-in or accepts the token in KAGED_TOKEN (default: the "+
			"daemon of the data directory)")
	cmd.Flags().StringVar(&f.model, "model", "", "PROVIDER:MODEL instead of the project's alias")
	cmd.Flags().IntVar(&f.maxSteps, "max-steps", 0, "the most model calls, 1 to 100 (default: the project's)")
	cmd.Flags().IntVar(&f.maxOutputTokens, "max-output-tokens", 0,
		"the most output tokens of a model call (default: the project's)")
	cmd.Flags().Int64Var(&f.issue, "issue", 0,
		"the number of the issue that the session works on (default: none, or the one it has)")
	cmd.Flags().Float64Var(&f.budgetUSD, "budget-usd", 0, "give the session a budget in US dollars")
	cmd.Flags().Int64Var(&f.budgetTokens, "budget-tokens", 0, "give the session a budget in tokens")
	cmd.Flags().Int64Var(&f.budgetCalls, "budget-calls", 0, "give the session a budget in model calls")
	cmd.Flags().DurationVar(&f.budgetWalltime, "budget-walltime", 0,
		"give the session a budget of working time, such as 30m")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "approve every call that needs approval")
	cmd.Flags().BoolVar(&f.takeover, "takeover", false,
		"attach to the session even if another client is attached; its connection ends")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the session's frames as JSON lines instead of text")
	return cmd
}

// check refuses flags that every daemon would refuse.
func (f runFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("max-steps") && (f.maxSteps < 1 || f.maxSteps > config.MaxSteps) {
		return kit.Misused(cmd, "--max-steps is %d and must be from 1 to %d", f.maxSteps, config.MaxSteps)
	}
	if cmd.Flags().Changed("max-output-tokens") && f.maxOutputTokens < 1 {
		return kit.Misused(cmd, "--max-output-tokens is %d and must be at least 1", f.maxOutputTokens)
	}
	if f.last && f.Session != "" {
		return kit.Misused(cmd, "-c and --session both name a session; use one of them")
	}
	if cmd.Flags().Changed("issue") && f.issue < 1 {
		return kit.Misused(cmd, "--issue is %d and must be the number of an issue, from 1", f.issue)
	}
	if cmd.Flags().Changed("budget-usd") && f.budgetUSD <= 0 ||
		cmd.Flags().Changed("budget-tokens") && f.budgetTokens < 1 ||
		cmd.Flags().Changed("budget-calls") && f.budgetCalls < 1 ||
		cmd.Flags().Changed("budget-walltime") && f.budgetWalltime < time.Second {
		return kit.Misused(cmd,
			"--budget-usd, --budget-tokens and --budget-calls must be greater than zero, --budget-walltime at least 1s")
	}
	if _, _, ok := config.SplitTarget(f.model); f.model != "" && !ok {
		return kit.Misused(cmd, "--model is %q and must be of the form PROVIDER:MODEL", f.model)
	}
	return kit.UrlFlag(cmd, f.URL)
}

// work runs the prompt in a session and shows it.
func work(ctx context.Context, a kit.App, c *client.Client, f runFlags, prompt string) error {
	if f.last {
		var err error
		if f.Session, err = lastSession(ctx, a, c, f.Project); err != nil {
			return err
		}
		fmt.Fprintf(a.Stderr, "session %s (continued)\n", f.Session)
	}
	session := f.Session
	if session != "" {
		warnNotInForce(ctx, a, c, session)
		if err := bind(ctx, c, session, f.issue); err != nil {
			return err
		}
	} else {
		var err error
		if session, err = newSession(ctx, a, c, f.Project, f.issue); err != nil {
			return err
		}
		fmt.Fprintf(a.Stderr, "session %s (continue: kaged run --session %s)\n", session, session)
	}
	if err := f.setBudget(ctx, c, session); err != nil {
		return err
	}
	if err := sayAgents(ctx, a, c, f, session); err != nil {
		return err
	}
	// A continued session has frames of earlier runs, which this run does not repeat.
	seen := map[string]int64{}
	if f.Session == "" {
		seen = map[string]int64{"output": 0, "events": 0}
	}
	socket, err := c.Attach(ctx, session, seen, f.takeover)
	if err != nil {
		return busy(err, session)
	}
	defer socket.Close()
	message := map[string]any{"content": prompt}
	if f.model != "" {
		message["model_override"] = f.model
	}
	if f.maxSteps != 0 {
		message["max_steps_override"] = f.maxSteps
	}
	if f.maxOutputTokens != 0 {
		message["max_output_tokens_override"] = f.maxOutputTokens
	}
	var posted posted
	if err := c.Do(ctx, http.MethodPost, "/api/v1/sessions/"+session+"/messages", message, &posted); err != nil {
		return busy(err, session)
	}
	if f.json {
		if err := writeSession(a.Stdout, session, posted.RunID); err != nil {
			return err
		}
	}
	show := newPrinter(a.Stdout, a.Stderr, f.json)
	show.asks = !f.yes && a.AtTerminal()
	if posted.Queued {
		stop := posted.awaitSlot(ctx, a, c, session)
		defer stop()
	}
	outcome, err := follow(ctx, a, c, socket, session, posted.RunID, f.yes, show)
	if err != nil {
		return err
	}
	if w := kit.ReadWindow(ctx, c, session, "primary"); w != nil && w.Window != nil && !f.json {
		show.step("window: %s", w)
	}
	switch outcome {
	case "completed":
		return nil
	case "cancelled":
		return kit.Exit(kit.ExitCancelled, nil)
	}
	return kit.Exit(kit.ExitFailed, nil)
}

// lastSession returns the session of the project in dir that was used last and has not ended. It fails with not_found.
func lastSession(ctx context.Context, a kit.App, c *client.Client, dir string) (string, error) {
	var loaded struct{ ID string }
	if err := project.Load(ctx, a, c, dir, false, &loaded); err != nil {
		return "", err
	}
	var found struct {
		ID        string
		State     string
		UpdatedAt int64 `json:"updated_at"`
	}
	for cursor := ""; ; {
		query := url.Values{"project_id": {loaded.ID}, "limit": {"200"}, "cursor": {cursor}}
		var page struct {
			Items []struct {
				ID        string
				State     string
				UpdatedAt int64 `json:"updated_at"`
			}
			NextCursor *string `json:"next_cursor"`
		}
		if err := c.Do(ctx, http.MethodGet, "/api/v1/sessions?"+query.Encode(), nil, &page); err != nil {
			return "", err
		}
		for _, s := range page.Items {
			if s.State != "ended" && (found.ID == "" || s.UpdatedAt > found.UpdatedAt) {
				found = s
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if found.ID == "" {
		return "",
			fault.New(fault.NotFound, "The project %s has no session to continue; run without -c.", loaded.ID)
	}
	return found.ID, nil
}

func newSession(ctx context.Context, a kit.App, c *client.Client, dir string, issue int64) (string, error) {
	var loaded struct {
		ID, State  string
		Unresolved struct {
			Aliases []struct{ Name string }
			Prompts []struct{ Path string }
		}
		Warnings []string
	}
	if err := project.Load(ctx, a, c, dir, false, &loaded); err != nil {
		return "", err
	}
	a.Warn(loaded.Warnings)
	if loaded.State != "ready" {
		var missing []string
		for _, al := range loaded.Unresolved.Aliases {
			missing = append(
				missing, fmt.Sprintf("the model alias %s is not bound; `kaged config set models.%s PROVIDER:MODEL` binds it",
					al.Name, al.Name),
			)
		}
		for _, pr := range loaded.Unresolved.Prompts {
			missing = append(missing, "the prompt "+pr.Path+" is missing")
		}
		return "", fault.New(fault.ProjectNotReady, "The project is not ready: %s.", strings.Join(missing, "; "))
	}
	var created struct{ ID string }
	begin := map[string]any{}
	if issue != 0 {
		begin["issue_number"] = issue
	}
	err := c.Do(ctx, http.MethodPost, "/api/v1/projects/"+loaded.ID+"/sessions", begin, &created)
	return created.ID, err
}

// cancelTimeout is the time limit for a cancelled run to end.
const cancelTimeout = 15 * time.Second

// follow shows the session's frames until the run has ended, and cancels the run when ctx ends. If Hurry is closed, it
// does not wait for the end.
func follow(
	ctx context.Context, a kit.App, c *client.Client, socket *client.Socket, session, run string, yes bool, show *printer,
) (outcome string, err error) {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		fmt.Fprintln(a.Stderr, "kaged: cancelling; press Ctrl-C again to exit without waiting")
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		if err := c.Do(cctx, http.MethodPost, "/api/v1/sessions/"+session+"/runs/"+run+"/cancel", map[string]any{},
			nil); err != nil && !errors.Is(err, fault.Conflict) {
			fmt.Fprintln(a.Stderr, "kaged: cancelling:", kit.SentenceFor(a.Stderr, err))
			socket.Close()
		}
	}()
	go func() {
		select {
		case <-ended:
		case <-a.Hurry:
			socket.Close()
		}
	}()
	operator := attend(ctx, a, c, session, run, yes)
	defer operator.leave()
	if !show.json && kit.IsTerminal(a.Stdin) {
		show.step("(type a line to steer the run, Ctrl-C cancels it)")
		operator.typing()
	}
	for {
		frame, err := socket.Read()
		if err != nil {
			if ctx.Err() != nil {
				return "", kit.Exit(kit.ExitCancelled, nil)
			}
			return "", err
		}
		operator.frame(frame)
		if over, outcome := show.frame(frame, run); over {
			return outcome, nil
		}
	}
}
