package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/pkg/version"
)

// The exit codes of a service's own binary.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Main is the main function of a service's own binary: it runs the modules with the flags --config and --data-dir (and
// their twins KAGED_CONFIG, KAGED_DATA_DIR), until SIGINT or SIGTERM.
func Main(modules ...Module) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Getenv, os.Stderr, modules)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer, modules []Module) int {
	name := filepath.Base(args[0])
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "Usage: %s [--config FILE] [--data-dir DIR] [--health]\n\nRuns one service of kaged; `kaged up` runs them all.\n\n", name)
		flags.PrintDefaults()
	}
	configPath := flags.String("config", config.DefaultPath(getenv), "the operator's configuration (KAGED_CONFIG)")
	dataDir := flags.String("data-dir", config.DefaultDataDir(getenv), "the data directory (KAGED_DATA_DIR)")
	health := flags.Bool("health", false, "ask the running service for its health and exit: 0 if it serves")
	showVersion := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if *health {
		return checkHealth(ctx, *configPath, *dataDir, modules[0].Name, getenv, stderr)
	}
	if *showVersion {
		fmt.Fprintln(stderr, name, version.String())
		return exitOK
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: unexpected argument %q\n", name, flags.Arg(0))
		return exitUsage
	}
	if err := runModules(ctx, *configPath, *dataDir, getenv, stderr, modules); err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", name, fault.From(err).Msg)
		return exitError
	}
	return exitOK
}

// healthTimeout bounds how long a running service may take to say whether it serves.
const healthTimeout = 3 * time.Second

// checkHealth asks the service that runs elsewhere with the same configuration.
func checkHealth(ctx context.Context, configPath, dataDir, service string, getenv func(string) string, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	file, err := config.Load(configPath)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", service, fault.From(err).Msg)
		return exitError
	}
	h := &Host{opts: Options{File: file, DataDir: dataDir, Getenv: getenv, Log: slog.New(slog.DiscardHandler)}}
	h.conns.host = h
	defer h.conns.close()
	resp, err := grpc_health_v1.NewHealthClient(h.Dial(service)).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "%s: %s\n", service, fault.From(err).Msg)
		return exitError
	case resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		fmt.Fprintf(stderr, "%s: not serving\n", service)
		return exitError
	}
	return exitOK
}

func runModules(ctx context.Context, configPath, dataDir string, getenv func(string) string, stderr io.Writer, modules []Module) error {
	file, err := config.Load(configPath)
	if err != nil {
		return err
	}
	log, closeLog, err := telemetry.NewLog(telemetry.LogOptions{Stderr: stderr, DataDir: dataDir, Name: modules[0].Name, Level: getenv("KAGED_LOG_LEVEL")})
	if err != nil {
		return err
	}
	defer closeLog()
	trace, err := telemetry.Tracing(ctx, modules[0].Name, getenv)
	if err != nil {
		return err
	}
	defer trace.Stop()
	h, err := New(Options{
		File: file, ConfigPath: configPath, DataDir: dataDir, Log: log, Version: version.String(), Getenv: getenv,
		Listen: config.Or(getenv("KAGED_LISTEN"), config.DefaultListen), UIURL: config.Or(getenv("KAGED_UI_URL"), file.UI.URL),
		Insecure: config.True(getenv("KAGED_INSECURE")), NoSandbox: config.True(getenv("KAGED_NO_SANDBOX")),
		Database: Database{
			OwnerURL: config.Or(getenv("KAGED_DATABASE_URL"), file.Database.URL),
			URL:      config.Or(getenv("KAGED_DATABASE_APP_URL"), file.Database.AppURL),
		},
		NATS: NATS{URL: config.Or(getenv("KAGED_NATS_URL"), file.NATS.URL)},
		GRPC: trace.Server, Dial: trace.Client,
	}, modules...)
	if err != nil {
		log.Error("cannot start", "error", err)
		return err
	}
	err = h.Run(ctx, func() {
		for _, r := range h.modules {
			log.Info("serving", "service", r.Name, "address", strings.TrimPrefix(r.listen, "unix:"))
		}
	})
	if err != nil {
		log.Error("stopped", "error", err)
	}
	return err
}
