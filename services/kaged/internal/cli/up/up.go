// Package up is `kaged up`, and the daemon that a command starts for itself.
package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/services/kaged/internal/cli/doctor"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/daemon"
)

// upFlags are the flags of kaged up. Each has a KAGED_ variable with the same meaning, and the file may set the values
// that flag and variable leave unset.
type upFlags struct {
	listen, uiURL, databaseURL, natsURL string
	rateLimits                          string
	insecure, anywhere, noSandbox       bool
}

func Command(a kit.App, p *kit.Places) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run kaged: every service in this process",
		Long: "Runs every service in this process until Ctrl-C. Runs then finish their current step; a " +
			"second\n" +
			"Ctrl-C stops at once. Without --database-url and --nats-url it starts a private Postgres under " +
			"the\n" +
			"data directory and NATS in the process. Once it serves, it prints one line on stdout:\n\n" +
			"  kaged ready URL\n\n" +
			"The URL signs a browser in, once; `kaged auth launch` prints another.",
		Args: kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := kit.ListenFlag(cmd, f.listen); err != nil {
				return err
			}
			if err := host.CheckInsecure(f.listen, f.insecure, f.anywhere); err != nil {
				return kit.Usage("%s", fault.From(err).Msg)
			}
			if f.rateLimits != "on" && !config.Off(f.rateLimits) {
				return kit.Misused(cmd, "--rate-limits is %q and must be on or off", f.rateLimits)
			}
			warnAbsent(a, cmd, p.Config.String())
			var looking sync.WaitGroup // the check for cages, in parallel with the start
			defer looking.Wait()
			if f.noSandbox {
				fmt.Fprintln(
					a.Stderr,
					"kaged: warning: --no-sandbox: agents that ask for a cage work without one, with your rights",
				)
			} else {
				looking.Go(func() { doctor.WarnUncageable(cmd.Context(), a, p) })
			}
			defer context.AfterFunc(cmd.Context(), func() {
				fmt.Fprintln(a.Stderr, "kaged: stopping after the current step; press Ctrl-C again to stop now")
			})()
			err := daemon.Run(cmd.Context(), daemonOptions(a, p, f), func(r daemon.Ready) {
				fmt.Fprintln(a.Stdout, "kaged ready", r.LaunchURL)
			})
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().
		StringVar(&f.listen, "listen", config.Or(a.Getenv("KAGED_LISTEN"), config.DefaultListen),
			"the HTTP address; port 0 picks one (KAGED_LISTEN)")
	cmd.Flags().
		StringVar(&f.uiURL, "ui-url", a.Getenv("KAGED_UI_URL"),
			"the address of kaged in browsers, such as http://NAME.localhost:7420 (KAGED_UI_URL)")
	cmd.Flags().
		StringVar(&f.databaseURL, "database-url", a.Getenv("KAGED_DATABASE_URL"),
			"a Postgres to use instead of a private one (KAGED_DATABASE_URL)")
	cmd.Flags().
		StringVar(&f.natsURL, "nats-url", a.Getenv("KAGED_NATS_URL"),
			"a NATS to use instead of the embedded one (KAGED_NATS_URL)")
	cmd.Flags().
		BoolVar(&f.insecure, "insecure", config.True(a.Getenv("KAGED_INSECURE")),
			"disable sign-in: every client that reaches the address has full control (KAGED_INSECURE)")
	cmd.Flags().
		BoolVar(&f.anywhere, "insecure-anywhere", config.True(a.Getenv("KAGED_INSECURE_ANYWHERE")),
			"allow --insecure on an address that other machines reach (KAGED_INSECURE_ANYWHERE)")
	cmd.Flags().
		BoolVar(&f.noSandbox, "no-sandbox", config.True(a.Getenv("KAGED_NO_SANDBOX")),
			"ignore cages: run agents unconfined (KAGED_NO_SANDBOX)")
	cmd.Flags().
		StringVar(&f.rateLimits, "rate-limits", config.Or(a.Getenv("KAGED_RATE_LIMITS"), "on"),
			"on, or off for requests without a limit (KAGED_RATE_LIMITS)")
	return cmd
}

// warnAbsent warns about a missing configuration that was named by a flag or variable: it counts as empty, and the name
// may be mistyped.
func warnAbsent(a kit.App, cmd *cobra.Command, path string) {
	named := cmd.Flags().Changed("config") || a.Getenv("KAGED_CONFIG") != ""
	if _, err := os.Stat(path); named && errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(a.Stderr, "kaged: warning: the configuration %s does not exist; kaged uses the defaults\n", path)
	}
}

func daemonOptions(a kit.App, p *kit.Places, f upFlags) daemon.Options {
	return daemon.Options{
		ConfigPath: p.Config, DataDir: p.DataDir, Listen: f.listen, UIURL: f.uiURL, Insecure: f.insecure,
		InsecureAnywhere: f.anywhere, NoSandbox: f.noSandbox,
		RateLimitsOff: config.Off(f.rateLimits),
		DatabaseURL:   f.databaseURL, DatabaseAppURL: a.Getenv("KAGED_DATABASE_APP_URL"), NATSURL: f.natsURL,
		Getenv: a.Getenv, Stderr: a.Stderr, Modules: a.Modules, Hurry: a.Hurry,
	}
}

// startTimeout is the time limit for the start of a private daemon; the creation of a data directory takes seconds.
const startTimeout = time.Minute

// startPrivate runs a daemon on a free port in this process for the duration of a command, until stop.
func startPrivate(ctx context.Context, a kit.App, p *kit.Places) (stop func() error, err error) {
	opts := daemonOptions(a, p, upFlags{
		listen: "127.0.0.1:0", databaseURL: a.Getenv("KAGED_DATABASE_URL"), natsURL: a.Getenv("KAGED_NATS_URL"),
		noSandbox: config.True(a.Getenv("KAGED_NO_SANDBOX")), rateLimits: a.Getenv("KAGED_RATE_LIMITS"),
	})
	opts.Quiet = true
	// The daemon must outlive the cancellation of the command, because the run is cancelled through it first.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- daemon.Run(runCtx, opts, func(daemon.Ready) { close(ready) }) }()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-ready:
		return func() error { cancel(); return <-done }, nil
	case err := <-done:
		cancel()
		return nil, err
	case <-ctx.Done():
	case <-timeout.C:
	}
	cancel()
	if err := <-done; err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("kaged did not start within %s; its log is in %s", startTimeout, p.DataDir)
}

// stopPrivate stops a daemon of [startPrivate] when no other command uses it. A Ctrl-C during the wait ends the wait;
// if the first Ctrl-C has already ended the run, the second one does.
func stopPrivate(ctx context.Context, a kit.App, p *kit.Places, stop func() error) error {
	patience, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	interrupted := ctx.Done()
	if ctx.Err() != nil {
		interrupted = nil
	}
	go func() {
		select {
		case <-interrupted:
		case <-a.Hurry:
		case <-patience.Done():
		}
		end()
	}()
	release, err := daemon.Alone(patience, p.DataDir.String(), func() {
		fmt.Fprintln(
			a.Stderr,
			"kaged: another command uses this daemon, which stays until that command ends; Ctrl-C stops it",
		)
	})
	if err == nil {
		defer release()
	}
	return stop()
}
