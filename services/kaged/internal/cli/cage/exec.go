package cage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/workbench"
)

func cageExec(a kit.App, p *kit.Places) *cobra.Command {
	var policy, project string
	var tty bool
	cmd := &cobra.Command{
		Use:   "exec --policy FILE [--tty] [--] CMD [ARGS...]",
		Short: "Run a command in a cage",
		Long: "Runs a command in a cage of its own, as a caged agent's commands run. FILE is the mapping of " +
			"a\n" +
			"`cage:` block of a project file; its project paths are relative to the project's folder. Paths " +
			"are\n" +
			"the same inside and outside. The working folder stays the same if the policy shows it, else it is\n" +
			"/. No daemon is needed.\n\n" +
			"The cage ends with the command, and shortly after a kill -9 of kaged. So `state: persistent` has\n" +
			"no effect: the home starts empty and is removed with the cage.\n\n" +
			"Stdin and signals go to the command. A second Ctrl-C kills the command and its cage. With --tty " +
			"it\n" +
			"has a terminal. Refused connections are reported on stderr at once, with --tty after the command\n" +
			"has ended. Repeated attempts to one target are reported once, with a total at the end.\n\n" +
			"Exits with the command's code, with 128+n if signal n ended it, 125 if kaged failed, 126 if the\n" +
			"program cannot be run and 127 if it is missing. The reason of a kill by the cage is printed on\n" +
			"stderr: `kaged: killed: oom`, pids, walltime, disk or seccomp, and in the next line the limit, " +
			"its\n" +
			"value and the fix.",
		Example: "  kaged cage exec --policy cage.yaml -- go test ./...\n" +
			"  kaged cage exec --policy cage.yaml --tty bash",
		Args: func(cmd *cobra.Command, list []string) error {
			switch {
			case policy == "":
				return ownMisuse(cmd, "a policy is needed: --policy FILE")
			case len(list) == 0:
				return ownMisuse(cmd, "a command is needed")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			command, err := caged(a, p, policy, a.ProjectOf(cmd, project), list)
			if err != nil {
				return own(err)
			}
			a.WarnPersistent(command.Policy)
			box, err := workbench.OpenSandbox(workbench.Options{
				ConfigPath: p.Config, DataDir: p.DataDir, Getenv: a.Getenv, Stderr: a.Stderr, Modules: a.Modules,
			})
			if err != nil {
				return own(err)
			}
			err = execute(cmd.Context(), a, box, command, tty, policyName(policy))
			if closed := box.Close(); err == nil && closed != nil {
				return own(closed)
			}
			return err
		},
	}
	cmd.SetFlagErrorFunc(
		func(cmd *cobra.Command, err error) error { return ownMisuse(cmd, "%s", kit.FlagSentence(cmd, err)) },
	)
	cmd.Flags().SetInterspersed(false) // words after the first belong to the command
	cmd.Flags().StringVar(&policy, "policy", "", "the file with the policy, - for standard input")
	cmd.Flags().StringVar(&project, "project", ".", kit.ProjectUsage)
	cmd.Flags().BoolVar(&tty, "tty", false, "give the command a terminal")
	return cmd
}

// own marks an error as one of kaged itself, not of the command.
func own(err error) error { return kit.Exit(kit.ExitOwn, err) }

func ownMisuse(cmd *cobra.Command, format string, args ...any) error {
	return own(fmt.Errorf("%s; see `%s --help`", fmt.Sprintf(format, args...), cmd.CommandPath()))
}

// maxPolicy is the maximum size of a policy in bytes.
const maxPolicy = 1 << 20

// caged returns the command of the arguments, in the working folder if the policy shows it.
func caged(a kit.App, p *kit.Places, policyFile, project string, argv []string) (workbench.Command, error) {
	policy, err := readPolicy(a, policyFile)
	if err != nil {
		return workbench.Command{}, err
	}
	dir, err := realPath(".")
	if err != nil {
		return workbench.Command{}, fmt.Errorf("the working folder cannot be found: %w", err)
	}
	root, err := realPath(project)
	if err != nil {
		return workbench.Command{}, kit.NoFolder(project)
	}
	file, err := config.Load(p.Config.String())
	if err != nil {
		return workbench.Command{}, err
	}
	forbidden, err := host.Own(file, p.Config, p.DataDir, a.Getenv, a.Modules...)
	if err != nil {
		return workbench.Command{}, err
	}
	view, err := cage.Compile(policy, root, cage.Forbidden(forbidden...))
	if err != nil {
		return workbench.Command{}, err
	}
	c := workbench.Command{Argv: argv, Dir: dir, Root: root, Env: inside(a), Policy: policy, Stdin: a.Stdin}
	if policyFile == "-" {
		c.Stdin = strings.NewReader("")
	}
	if !view.Allows(dir, false) {
		c.Dir = "/"
	}
	return c, nil
}

// realPath returns the absolute path without links.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// policyName returns the name of a policy's file in messages.
func policyName(file string) string {
	if file == "-" {
		return "the policy"
	}
	return file
}

func readPolicy(a kit.App, name string) (*dsl.Cage, error) {
	from := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no policy %s", name)
		}
		if err != nil {
			return nil, fmt.Errorf("the policy cannot be read: %w", err)
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, maxPolicy+1))
	if err != nil {
		return nil, fmt.Errorf("the policy cannot be read: %w", err)
	}
	if len(data) > maxPolicy {
		return nil, fmt.Errorf("the policy %s is longer than %d bytes", name, maxPolicy)
	}
	if name == "-" {
		name = "standard input"
	}
	policy, diagnostics := dsl.ParseCage(name, data)
	var lines []string
	for _, d := range diagnostics {
		line := d.Pos.String() + ": " + d.Message
		if d.Severity == dsl.Warning {
			fmt.Fprintln(a.Stderr, "kaged: warning:", line)
			continue
		}
		lines = append(lines, "\n  "+line)
	}
	if policy == nil {
		return nil, fmt.Errorf("the policy cannot be used:%s", strings.Join(lines, ""))
	}
	return policy, nil
}

// handed are the variables of this process that are passed to a caged command; the cage adds its own.
var handed = []string{"PATH", "LANG", "LC_ALL", "TERM", "TZ"}

func inside(a kit.App) map[string]string {
	env := map[string]string{}
	for _, name := range handed {
		if value := a.Getenv(name); value != "" {
			env[name] = value
		}
	}
	return env
}

// patience is the time after the first signal until kaged prints how to end the command at once.
const patience = time.Second

// heed returns when done is closed or the command is killed. The first signal ends ctx, and [passSignals] passes it
// to the command, which may end by itself. The second signal (Hurry) kills the command. quiet suppresses messages.
func heed(ctx context.Context, a kit.App, done <-chan struct{}, kill func(), quiet bool) {
	select {
	case <-ctx.Done():
	case <-done:
		return
	}
	waited := time.NewTimer(patience)
	defer waited.Stop()
	for {
		select {
		case <-waited.C:
			if !quiet {
				fmt.Fprintln(
					a.Stderr,
					"kaged: the command got the signal and continues; press Ctrl-C again to kill it and its "+
						"cage",
				)
			}
		case <-a.Hurry:
			kill()
			return
		case <-done:
			return
		}
	}
}

// execute runs a command and returns the exit error of this process. from names the policy in messages.
func execute(ctx context.Context, a kit.App, box *workbench.Sandbox, c workbench.Command, tty bool, from string) error {
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	done, heeded := make(chan struct{}), make(chan struct{})
	defer func() { close(done); <-heeded }()
	go func() {
		defer close(heeded)
		heed(ctx, a, done, kill, tty)
	}()
	signals, forget := passSignals()
	defer forget()
	c.Signals = signals
	restore := func() {}
	if tty {
		restore = sync.OnceFunc(attachTerminal(a, &c))
	}
	defer restore()
	refused := refusedList{w: a.Stderr, later: tty}
	c.Refused = refused.add
	stdout, stderr := kit.Raw(a.Stdout), kit.Raw(a.Stderr) // the command's own output, as without a cage
	c.Output = func(failing bool, data []byte) {
		if failing {
			_, _ = stderr.Write(data) // a failed write does not end the command
			refused.midline = len(data) > 0 && data[len(data)-1] != '\n'
		} else {
			_, _ = stdout.Write(data)
		}
	}
	began := time.Now()
	exited, err := box.Exec(life, c)
	restore()
	refused.end()
	switch {
	case err != nil && life.Err() != nil:
		fmt.Fprintf(a.Stderr, "kaged: cut off after %s by the second signal, with its cage and all its "+
			"processes\n",
			kit.Seconds(time.Since(began).Milliseconds()))
		return kit.Exit(kit.ExitCancelled, nil)
	case err != nil:
		return startError(err)
	}
	for _, f := range exited.GetFound() {
		a.SayFound(f.GetText())
	}
	return ended(a, exited, c.Policy.Limits, from)
}

// startError returns the exit error for a command without a reported end.
func startError(err error) error {
	f := fault.From(err)
	switch {
	case f.Code != fault.ShellSpawnFailed || f.Details["program"] == nil:
		return own(err)
	case f.Details["missing"] == true:
		return kit.Exit(kit.ExitNoProgram, err)
	}
	return kit.Exit(kit.ExitNotRun, err)
}

// attachTerminal gives the command a terminal with the size of this one, and passes all keys to the command unchanged.
// restore resets this terminal.
func attachTerminal(a kit.App, c *workbench.Command) (restore func()) {
	c.Terminal = &workbench.Size{}
	in, ok := a.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return func() {}
	}
	size := func() (s workbench.Size) {
		cols, rows, err := term.GetSize(int(in.Fd()))
		if err == nil {
			s = workbench.Size{Cols: uint32(cols), Rows: uint32(rows)}
		}
		return s
	}
	*c.Terminal = size()
	resized, forget := kit.Sizes(size)
	c.Resized = resized
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return forget
	}
	return func() {
		forget()
		_ = term.Restore(int(in.Fd()), state) // the terminal may be gone
	}
}
