package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/client"
	"kaged.dev/services/kaged/internal/daemon"
)

// runFlags are the flags of kaged run.
type runFlags struct {
	project, session, url, model string
	maxSteps, maxOutputTokens    int
	json, yes, takeover          bool
}

func (a App) run(p *places) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] PROMPT...|-",
		Short: "Send a prompt to the project's agent and stream its work",
		Long: "Posts the prompt to a session of the project and shows what the agent does: its text on stdout, its steps on\n" +
			"stderr. Uses the daemon that runs on the data directory, or starts a temporary one, which ends with the last command\n" +
			"that uses it. Without --project the project is the nearest folder with a project file, from the working folder upwards.\n\n" +
			"The arguments are joined by spaces. Piped standard input is added below them; where it stays silent for " + firstInput.String() + ", the\n" +
			"prompt goes without it. An argument - stands for standard input and waits for its end.\n\n" +
			"A call that needs approval is asked about on the terminal, and denied without one; --yes approves it.\n" +
			"Project files that grant more than was approved are shown and asked about first; without a terminal it exits 2, and\n" +
			"`kaged project approve` approves them.\n" +
			"On a terminal the agent's text loses control, bidi and other invisible characters; a pipe and --json get it exactly.\n" +
			"Approvals show such characters as escapes.\n" +
			"Before anything runs, stderr says of each agent in which cage it works. With --json, stdout carries the frames of the\n" +
			"session's socket as JSON lines; the first line has the type \"session\" and names the session and the run.\n\n" +
			"Exits 0 when the run completed, 1 when it failed, 2 when there is no such project or session or its file does not\n" +
			"compile, 130 when it was cancelled.",
		Example: "  kaged run fix the failing test\n  git diff | kaged run \"review this change\"\n" +
			"  kaged run --session 01K0000000000000000000000A \"now add a test\"",
		RunE: func(cmd *cobra.Command, list []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.session == "" {
				f.project = a.projectOf(cmd, f.project)
			}
			prompt, err := a.prompt(cmd, list)
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
	cmd.Flags().StringVar(&f.project, "project", ".", projectUsage)
	cmd.Flags().StringVar(&f.session, "session", "", "continue this session (default: a new one)")
	cmd.Flags().StringVar(&f.url, "url", "", "a daemon elsewhere that needs no sign-in (default: the one on the data directory)")
	cmd.Flags().StringVar(&f.model, "model", "", "PROVIDER:MODEL instead of the project's alias")
	cmd.Flags().IntVar(&f.maxSteps, "max-steps", 0, "the most model calls, 1 to 100 (default: the project's)")
	cmd.Flags().IntVar(&f.maxOutputTokens, "max-output-tokens", 0, "the most output tokens of a model call (default: the project's)")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "approve what needs approval")
	cmd.Flags().BoolVar(&f.takeover, "takeover", false, "attach to the session even if another client is attached, whose connection then ends")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the session's frames as JSON lines instead of text")
	return cmd
}

// check refuses flags that no daemon would take.
func (f runFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("max-steps") && (f.maxSteps < 1 || f.maxSteps > config.MaxSteps) {
		return misused(cmd, "--max-steps is %d and must be from 1 to %d", f.maxSteps, config.MaxSteps)
	}
	if cmd.Flags().Changed("max-output-tokens") && f.maxOutputTokens < 1 {
		return misused(cmd, "--max-output-tokens is %d and must be at least 1", f.maxOutputTokens)
	}
	if _, _, ok := config.SplitTarget(f.model); f.model != "" && !ok {
		return misused(cmd, "--model is %q and must be of the form PROVIDER:MODEL", f.model)
	}
	return urlFlag(cmd, f.url)
}

// connect returns a signed-in client and what ends its connection, with the daemon if one was started for it.
func (a App) connect(ctx context.Context, p *places, f runFlags) (*client.Client, func() error, error) {
	if f.url != "" {
		c := client.New(f.url)
		return c, func() error { c.Close(); return nil }, c.Bootstrap(ctx)
	}
	var c *client.Client
	signIn := func(conn grpc.ClientConnInterface) (err error) {
		c, err = client.SignInWith(ctx, conn)
		return err
	}
	release, err := daemon.Share(ctx, p.dataDir.String())
	if err != nil {
		return nil, nil, err
	}
	done := func() error { release(); return nil }
	running, err := a.gateway(ctx, p, signIn)
	if running {
		a.warnRawKeys(p.config.String()) // a daemon of our own says so itself
	}
	for err == nil && !running {
		// A daemon would refuse it as well, once it had started.
		if err = projectHere(f); err != nil {
			break
		}
		fmt.Fprintf(a.Stderr, "kaged: no daemon is running for %s; starting a temporary one\n", p.dataDir)
		var stop func() error
		var quicker *daemon.InUseError
		if stop, err = a.startPrivate(ctx, p); err == nil {
			release()
			done = func() error { return a.stopPrivate(ctx, p, stop) }
		} else if !errors.As(err, &quicker) {
			break
		}
		running, err = a.gateway(ctx, p, signIn)
	}
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return c, func() error { c.Close(); return done() }, nil
}

// projectHere fails where the folder is no project.
func projectHere(f runFlags) error {
	if f.session != "" {
		return nil
	}
	if info, err := os.Stat(f.project); err != nil || !info.IsDir() {
		return noFolder(f.project)
	}
	if _, err := os.Stat(filepath.Join(f.project, dsl.ProjectFile)); errors.Is(err, fs.ErrNotExist) {
		return noProject(f.project)
	}
	return nil
}

func noFolder(dir string) error {
	return fault.New(fault.NotFound, "There is no folder %s.", absolute(dir))
}

func noProject(dir string) error {
	above := ""
	if dir == "." {
		above = " or the folders above it"
	}
	return fault.New(fault.NotFound, "There is no %s in %s%s. Run `kaged init %s` to make it a project.",
		dsl.ProjectFile, absolute(dir), above, shellQuote(dir))
}

// absolute is a path as it can be named to people; one that has no absolute form stays as it is.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// work runs the prompt in a session and shows it.
func (a App) work(ctx context.Context, c *client.Client, f runFlags, prompt string) error {
	session := f.session
	if session != "" {
		a.warnNotInForce(ctx, c, session)
	} else {
		var err error
		if session, err = a.newSession(ctx, c, f.project); err != nil {
			return err
		}
		fmt.Fprintf(a.Stderr, "session %s (continue: kaged run --session %s)\n", session, session)
	}
	if err := a.sayAgents(ctx, c, f, session); err != nil {
		return err
	}
	// A session that is continued has frames of its past, which this run does not repeat.
	seen := map[string]int64{}
	if f.session == "" {
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
	var posted struct {
		RunID string `json:"run_id"`
	}
	if err := c.Do(ctx, http.MethodPost, "/api/v1/sessions/"+session+"/messages", message, &posted); err != nil {
		return busy(err, session)
	}
	if f.json {
		if err := writeSession(a.Stdout, session, posted.RunID); err != nil {
			return err
		}
	}
	show := newPrinter(a.Stdout, a.Stderr, f.json)
	show.asks = !f.yes && a.atTerminal()
	outcome, err := a.follow(ctx, c, socket, session, posted.RunID, f.yes, show)
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
	var loaded struct {
		ID, State  string
		Unresolved struct {
			Aliases []struct{ Name string }
			Prompts []struct{ Path string }
		}
		Warnings []string
	}
	if err := a.loadProject(ctx, c, project, false, &loaded); err != nil {
		return "", err
	}
	a.warn(loaded.Warnings)
	if loaded.State != "ready" {
		var missing []string
		for _, al := range loaded.Unresolved.Aliases {
			missing = append(missing, fmt.Sprintf("the model alias %s is not bound; `kaged config set models.%s PROVIDER:MODEL` binds it", al.Name, al.Name))
		}
		for _, pr := range loaded.Unresolved.Prompts {
			missing = append(missing, "the prompt "+pr.Path+" is missing")
		}
		return "", fault.New(fault.ProjectNotReady, "The project is not ready: %s.", strings.Join(missing, "; "))
	}
	var created struct{ ID string }
	err := c.Do(ctx, http.MethodPost, "/api/v1/projects/"+loaded.ID+"/sessions", map[string]any{}, &created)
	return created.ID, err
}

// cancelTimeout bounds how long a cancelled run may take to end.
const cancelTimeout = 15 * time.Second

// follow shows the session's frames until the run has ended, and cancels the run when ctx ends. Asked to hurry, it does not
// wait for the end.
func (a App) follow(ctx context.Context, c *client.Client, socket *client.Socket, session, run string, yes bool, show *printer) (outcome string, err error) {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		fmt.Fprintln(a.Stderr, "kaged: cancelling; Ctrl-C again leaves without waiting")
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		if err := c.Do(cctx, http.MethodPost, "/api/v1/sessions/"+session+"/runs/"+run+"/cancel", map[string]any{}, nil); err != nil && !errors.Is(err, fault.Conflict) {
			fmt.Fprintln(a.Stderr, "kaged: cancelling:", sentence(err))
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
	operator := a.attend(ctx, c, session, run, yes)
	defer operator.leave()
	for {
		frame, err := socket.Read()
		if err != nil {
			if ctx.Err() != nil {
				return "", &exitError{code: exitCancelled}
			}
			return "", err
		}
		operator.frame(frame)
		if over, outcome := show.frame(frame, run); over {
			return outcome, nil
		}
	}
}
