package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/memory"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/seal"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/pkg/version"
)

// The exit codes of a service's own binary.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Main is the main function of a service's own binary: it runs the modules with the flags --config and --data-dir (or
// the variables KAGED_CONFIG and KAGED_DATA_DIR), until SIGINT or SIGTERM. A second signal cuts off running work.
func Main(modules ...Module) {
	seal.Process()
	ctx, hurry, stop := Interrupts(context.Background())
	code := binary{args: os.Args, getenv: os.Getenv, stderr: os.Stderr, hurry: hurry, modules: modules}.run(ctx)
	stop()
	os.Exit(code)
}

// binary is one start of a service's own binary.
type binary struct {
	args    []string
	getenv  func(string) string
	stderr  io.Writer
	hurry   <-chan struct{}
	modules []Module // the process is named after the first

	configPath, dataDir ownpath.Path
}

const usage = `Usage: %[1]s [--config FILE] [--data-dir DIR] [--health | --version]

Runs one service of kaged until Ctrl-C; ` + "`kaged up`" +
	` runs them all. Where it listens is [services.%[2]s] listen of
the configuration, where the stores are is [database] url (KAGED_DATABASE_URL) and [nats] url (
	KAGED_NATS_URL). On TCP it needs the
certificate of [tls] (KAGED_TLS_CERT_FILE, KAGED_TLS_KEY_FILE, KAGED_TLS_CA_FILE); ` + "`kaged certs`" + ` makes one.

`

func (b binary) run(ctx context.Context) int {
	name, service := filepath.Base(b.args[0]), b.modules[0].Name
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(b.stderr)
	flags.Usage = func() {
		fmt.Fprintf(b.stderr, usage, name, service)
		flags.PrintDefaults()
	}
	configPath := flags.String("config", config.DefaultPath(b.getenv), "the operator's configuration (KAGED_CONFIG)")
	dataDir := flags.String("data-dir", config.DefaultDataDir(b.getenv), "the data directory (KAGED_DATA_DIR)")
	health := flags.Bool("health", false, "ask the running service for its health and exit: 0 if it serves")
	showVersion := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(b.args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(b.stderr, "%s: unexpected argument %q; see %s --help\n", name, flags.Arg(0), name)
		return exitUsage
	}
	err := b.resolve(*configPath, *dataDir)
	switch {
	case *showVersion:
		fmt.Fprintln(b.stderr, name, version.String())
		return exitOK
	case err != nil:
	case *health:
		err = b.checkHealth(ctx)
	default:
		err = b.serve(ctx)
	}
	if err != nil {
		fmt.Fprintf(b.stderr, "%s: %s\n", name, fault.From(err).Msg)
		if fault.From(err).Details["reason"] == insecureAnywhere {
			return exitUsage
		}
		return exitError
	}
	return exitOK
}

// resolve resolves kaged's own paths once, so that all later code compares and hides the same paths.
func (b *binary) resolve(configPath, dataDir string) (err error) {
	if dataDir == "" {
		return fault.New(fault.BadRequest, "%s", config.NoDataDir)
	}
	if b.dataDir, err = config.Resolve(dataDir); err == nil && configPath != "" {
		b.configPath, err = config.Resolve(configPath)
	}
	return err
}

// healthTimeout is the time limit of a health check of a running service.
const healthTimeout = 3 * time.Second

// checkHealth checks the service that runs in another process with the same configuration.
func (b binary) checkHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	file, err := config.Load(b.configPath.String())
	if err != nil {
		return err
	}
	elsewhere, err := NewElsewhere(file, b.dataDir, b.getenv)
	if err != nil {
		return err
	}
	defer elsewhere.Close()
	resp, err := grpc_health_v1.NewHealthClient(elsewhere.Dial(b.modules[0].Name)).
		Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if errors.Is(err, fault.Forbidden) || errors.Is(err, fault.Unauthenticated) {
		return err
	}
	if err != nil {
		return fault.Wrap(
			err,
			fault.Unavailable,
			"It does not answer: it is not running, or runs with another configuration or data directory.",
		)
	}
	if resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fault.New(fault.Unavailable, "It runs and does not serve yet; its log has the reason.")
	}
	return nil
}

// serve runs the modules until ctx ends.
func (b binary) serve(ctx context.Context) error {
	getenv, err := config.WithFiles(b.getenv)
	if err != nil {
		return err
	}
	b.getenv = getenv
	file, err := config.Load(b.configPath.String())
	if err != nil {
		return err
	}
	log, closeLog, err := telemetry.NewLog(telemetry.LogOptions{
		Stderr: b.stderr, DataDir: b.dataDir.String(), Name: b.modules[0].Name, Level: b.getenv("KAGED_LOG_LEVEL"),
		Format: b.getenv("KAGED_LOG_FORMAT"),
	})
	if err != nil {
		return err
	}
	defer closeLog()
	kit, err := StartTelemetry(ctx, b.modules[0].Name, b.modules[0].Name, file, log, b.getenv)
	if err != nil {
		return err
	}
	defer kit.Stop()
	h, err := New(Options{
		File: file, ConfigPath: b.configPath, DataDir: b.dataDir, Log: log, Version: version.String(), Getenv: b.getenv,
		Listen: config.Or(
			b.getenv("KAGED_LISTEN"),
			config.DefaultListen,
		),
		UIURL:    config.Or(b.getenv("KAGED_UI_URL"), file.UI.URL),
		Insecure: config.True(b.getenv("KAGED_INSECURE")), InsecureAnywhere: config.True(b.getenv("KAGED_INSECURE_ANYWHERE")),
		NoSandbox: config.True(b.getenv("KAGED_NO_SANDBOX")), RateLimitsOff: config.Off(b.getenv("KAGED_RATE_LIMITS")),
		Database: Database{
			OwnerURL: config.Or(b.getenv("KAGED_DATABASE_URL"), file.Database.URL),
			URL:      config.Or(b.getenv("KAGED_DATABASE_APP_URL"), file.Database.AppURL),
		},
		NATS:      NATS{URL: config.Or(b.getenv("KAGED_NATS_URL"), file.NATS.URL)},
		Telemetry: kit, Hurry: b.hurry,
	}, b.modules...)
	if err != nil {
		log.Error("cannot start", "error", err)
		return err
	}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	background.Go(func() { memory.Keep(ctx, file.Host.MemoryLimit) })
	err = h.Run(ctx, func() {
		for _, r := range h.modules {
			log.Info("serving", "service", r.Name, "address", strings.ReplaceAll(strings.Join(r.listen, " "), "unix:", ""))
		}
	})
	if err != nil {
		log.Error("stopped", "error", err)
	}
	return err
}
