package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/services/kaged/internal/client"
	"kaged.dev/services/kaged/internal/daemon"
)

// runFlags are the flags of kaged run.
type runFlags struct {
	project, session, url, model string
	maxSteps, maxOutputTokens    int
	json                         bool
}

// maxPrompt is the longest prompt in bytes that is read from standard input.
const maxPrompt = 1 << 20

func (a App) run(p *places) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] PROMPT|-",
		Short: "Have a project's agent do something, and watch",
		Long: "Posts the prompt to a session of the project and shows what the agent does: its text on stdout, its steps on\n" +
			"stderr. Uses the daemon that runs on the data directory, or starts one for the time of the run.\n" +
			"Exits 0 when the run completed, 1 when it failed, 130 when it was cancelled.",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			prompt, err := a.prompt(list[0])
			if err != nil {
				return err
			}
			c, done, err := a.connect(cmd.Context(), p, f)
			if err != nil {
				return err
			}
			runErr := a.work(cmd.Context(), c, f, prompt)
			if err := done(); runErr == nil {
				return err
			}
			return runErr
		},
	}
	cmd.Flags().StringVar(&f.project, "project", ".", "the project's folder")
	cmd.Flags().StringVar(&f.session, "session", "", "continue this session (default: a new one)")
	cmd.Flags().StringVar(&f.url, "url", "", "a daemon elsewhere that needs no sign-in (default: the one on the data directory)")
	cmd.Flags().StringVar(&f.model, "model", "", "PROVIDER:MODEL instead of the project's alias")
	cmd.Flags().IntVar(&f.maxSteps, "max-steps", 0, "the most model calls, 1 to 100 (default: the project's)")
	cmd.Flags().IntVar(&f.maxOutputTokens, "max-output-tokens", 0, "the most output tokens of a model call (default: the project's)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the session's frames as JSON lines instead of text")
	return cmd
}

func (a App) prompt(arg string) (string, error) {
	text := arg
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("standard input cannot be read: %w", err)
		}
		if len(data) > maxPrompt {
			return "", usage("the prompt is longer than %d bytes", maxPrompt)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		return "", usage("the prompt is empty")
	}
	return text, nil
}

// connect returns a signed-in client and what ends its connection, with the daemon if one was started for it.
func (a App) connect(ctx context.Context, p *places, f runFlags) (*client.Client, func() error, error) {
	if f.url != "" {
		c := client.New(f.url)
		return c, func() error { c.Close(); return nil }, c.Bootstrap(ctx)
	}
	_, running, err := daemon.Find(p.dataDir)
	if err != nil {
		return nil, nil, err
	}
	stop := func() error { return nil }
	if !running {
		fmt.Fprintln(a.Stderr, "kaged: starting (no daemon runs on "+p.dataDir+")")
		own, err := a.startPrivate(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		stop = own.stop
	}
	c, err := client.SignIn(ctx, host.SocketPath(p.dataDir, "gateway"))
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return c, func() error { c.Close(); return stop() }, nil
}

// work runs the prompt in a session and shows it.
func (a App) work(ctx context.Context, c *client.Client, f runFlags, prompt string) error {
	session := f.session
	if session == "" {
		var err error
		if session, err = a.newSession(ctx, c, f.project); err != nil {
			return err
		}
	}
	// A session that is continued has frames of its past, which this run does not repeat.
	seen := map[string]int64{}
	if f.session == "" {
		seen = map[string]int64{"output": 0, "events": 0}
	}
	socket, err := c.Attach(ctx, session, seen, false)
	if err != nil {
		return err
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
	var posted struct {
		RunID string `json:"run_id"`
	}
	if err := c.Do(ctx, http.MethodPost, "/api/v1/sessions/"+session+"/messages", message, &posted); err != nil {
		return err
	}
	show := newPrinter(a.Stdout, a.Stderr, f.json)
	outcome, err := a.follow(ctx, c, socket, session, posted.RunID, show)
	if err != nil {
		return err
	}
	switch outcome {
	case "completed":
		return nil
	case "cancelled":
		return &exitError{code: exitCancelled}
	}
	return &exitError{code: exitFailed}
}

func (a App) newSession(ctx context.Context, c *client.Client, project string) (string, error) {
	dir, err := filepath.Abs(project)
	if err != nil {
		return "", err
	}
	var loaded struct {
		ID, State  string
		Unresolved struct {
			Aliases []struct{ Name string }
			Prompts []struct{ Path string }
		}
		Warnings []string
	}
	if err := c.Do(ctx, http.MethodPost, "/api/v1/projects/load", map[string]any{"path": dir}, &loaded); err != nil {
		return "", explainLoad(err, project)
	}
	for _, w := range loaded.Warnings {
		fmt.Fprintln(a.Stderr, "kaged: warning:", w)
	}
	if loaded.State != "ready" {
		var missing []string
		for _, al := range loaded.Unresolved.Aliases {
			missing = append(missing, fmt.Sprintf("the model alias %s is not bound; `kaged config set models.%s PROVIDER:MODEL` binds it", al.Name, al.Name))
		}
		for _, pr := range loaded.Unresolved.Prompts {
			missing = append(missing, "the prompt "+pr.Path+" is missing")
		}
		return "", fault.New(fault.ProjectNotReady, "The project is %s: %s.", loaded.State, strings.Join(missing, "; "))
	}
	var created struct{ ID string }
	err = c.Do(ctx, http.MethodPost, "/api/v1/projects/"+loaded.ID+"/sessions", map[string]any{}, &created)
	return created.ID, err
}

// explainLoad adds to a refusal what a person at a terminal needs: the places in the project file, or how to make one.
func explainLoad(err error, project string) error {
	f := fault.From(err)
	switch f.Code {
	case fault.NotFound:
		return fault.New(f.Code, "%s Run `kaged init %s` to make it a project.", f.Msg, project)
	case fault.DSLInvalid:
		var b strings.Builder
		list, _ := f.Details["errors"].([]any)
		for _, item := range list {
			e, _ := item.(map[string]any)
			fmt.Fprintf(&b, "\n  .kaged/project.yaml:%v:%v: %v", e["line"], e["column"], e["reason"])
		}
		return fault.New(f.Code, "%s%s", f.Msg, b.String())
	}
	return err
}

// cancelTimeout bounds how long a cancelled run may take to end.
const cancelTimeout = 15 * time.Second

// follow shows the session's frames until the run has ended, and cancels the run when ctx ends.
func (a App) follow(ctx context.Context, c *client.Client, socket *client.Socket, session, run string, show *printer) (outcome string, err error) {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		fmt.Fprintln(a.Stderr, "kaged: cancelling")
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		if err := c.Do(cctx, http.MethodPost, "/api/v1/sessions/"+session+"/runs/"+run+"/cancel", map[string]any{}, nil); err != nil && !errors.Is(err, fault.Conflict) {
			fmt.Fprintln(a.Stderr, "kaged: cancelling:", sentence(err))
			socket.Close()
		}
	}()
	for {
		frame, err := socket.Read()
		if err != nil {
			return "", err
		}
		if over, outcome := show.frame(frame, run); over {
			return outcome, nil
		}
	}
}
