package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/memory"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/pkg/version"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
)

// readyPoll is the interval at which a starting daemon is asked whether it is ready.
const readyPoll = 5 * time.Millisecond

// Options are the settings of a daemon; flags, environment and file are already merged.
type Options struct {
	// ConfigPath is local.toml.
	ConfigPath ownpath.Path
	// DataDir is the data directory.
	DataDir ownpath.Path
	// Listen is the HTTP address; with port 0 the system selects the port.
	Listen string
	// UIURL is the address of the console for people, empty for the listener's address.
	UIURL string
	// Insecure switches authentication off, InsecureAnywhere allows that on an address that other machines can reach,
	// NoSandbox switches cages off.
	Insecure, InsecureAnywhere, NoSandbox bool
	// RateLimitsOff switches the rate limits of the API off.
	RateLimitsOff bool
	// DatabaseURL and NATSURL are the addresses of external stores; empty selects embedded ones.
	DatabaseURL, DatabaseAppURL, NATSURL string
	// Getenv reads the environment.
	Getenv func(string) string
	// Stderr receives the log; Quiet limits it to warnings.
	Stderr io.Writer
	Quiet  bool
	// Modules are the services to run.
	Modules []host.Module
	// Hurry is closed to interrupt running work, after ctx has ended; nil means never.
	Hurry <-chan struct{}
}

// Ready is the announcement of a daemon that is ready.
type Ready struct {
	// BaseURL is its HTTP address, LaunchURL the address that signs a browser in; they are equal if authentication is off.
	BaseURL, LaunchURL string
}

// Run runs a daemon until ctx ends or a service fails. It calls ready once, when /readyz answers 200. It fails with
// *InUseError if another daemon uses the data directory.
func Run(ctx context.Context, opts Options, ready func(Ready)) error {
	file, err := config.Load(opts.ConfigPath.String())
	if err != nil {
		return err
	}
	if file.System.Enabled {
		return fault.New(fault.BadRequest, "%s is for a deployment of several operators ([system] enabled), "+
			"which runs each service by itself; `kaged up` serves one operator. See "+
			"docs/howto/run-on-kubernetes.md.", opts.ConfigPath)
	}
	held, err := acquire(opts.DataDir.String())
	if err != nil {
		return err
	}
	defer held.release()
	if err := free(ctx, opts.Listen); err != nil {
		return err
	}
	log, closeLog, err := telemetry.NewLog(telemetry.LogOptions{
		Stderr: opts.Stderr, DataDir: opts.DataDir.String(), Name: "kaged", Level: opts.Getenv("KAGED_LOG_LEVEL"),
		Format: opts.Getenv("KAGED_LOG_FORMAT"), Quiet: opts.Quiet,
	})
	if err != nil {
		return err
	}
	defer closeLog()
	stopProfile, err := profile(opts.Getenv("KAGED_CPU_PROFILE"))
	if err != nil {
		return err
	}
	defer stopProfile()
	kit, err := host.StartTelemetry(ctx, "all", "", file, log, opts.Getenv)
	if err != nil {
		return err
	}
	defer kit.Stop()

	stores, err := openStores(ctx, opts, file, log)
	if err != nil {
		log.Error("cannot start", "error", err)
		return err
	}
	defer stores.close()
	h, err := host.New(host.Options{
		File: file, ConfigPath: opts.ConfigPath, DataDir: opts.DataDir, Log: log, Version: version.String(),
		Getenv: opts.Getenv,
		Listen: opts.Listen, UIURL: config.Or(opts.UIURL, file.UI.URL), Insecure: opts.Insecure,
		InsecureAnywhere: opts.InsecureAnywhere,
		NoSandbox:        opts.NoSandbox, RateLimitsOff: opts.RateLimitsOff,
		Database: stores.database, NATS: stores.nats, Telemetry: kit, Hurry: opts.Hurry,
	}, opts.Modules...)
	if err != nil {
		log.Error("cannot start", "error", err)
		return err
	}
	return serve(ctx, h, held, stores, log, file.Host.MemoryLimit, ready)
}

// free fails with unavailable if another program listens at the address, before the start of a database takes seconds
// for a daemon that could not serve. The gateway listens later, and its result decides.
func free(ctx context.Context, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return nil //nolint:nilerr // what is no address is the gateway's to refuse
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.New(
			fault.Unavailable,
			"The address %s is in use by another program; choose another with --listen HOST:PORT, or port 0 for a free one.",
			address,
		)
	}
	return nil // the gateway reports other errors of the address
}

// serve runs the services until ctx ends, a service fails, or the embedded Postgres fails permanently.
func serve(
	ctx context.Context, h *host.Host, held *lock, stores *stores, log *slog.Logger, memoryLimit int64, ready func(Ready),
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := time.Now()
	var background sync.WaitGroup
	err := h.Run(ctx, func() {
		background.Go(func() {
			r, err := announce(ctx, h, held)
			if err != nil {
				cancel(err)
				return
			}
			log.Info("ready", "url", r.BaseURL, "took", time.Since(begun))
			ready(r)
			memory.Keep(ctx, memoryLimit)
		})
		background.Go(func() {
			if err := stores.keep(ctx); err != nil {
				log.Error("the stores are gone", "error", err)
				cancel(err)
			}
		})
	})
	cause := context.Cause(ctx)
	cancel(nil)
	background.Wait()
	if err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// announce waits until the gateway is ready and returns its addresses.
func announce(ctx context.Context, h *host.Host, held *lock) (Ready, error) {
	health := grpc_health_v1.NewHealthClient(h.Dial("gateway"))
	for {
		resp, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			break
		}
		if !retry.Wait(ctx, readyPoll) {
			return Ready{}, context.Cause(ctx)
		}
	}
	gateway := gatewayv1.NewGatewayServiceClient(h.Dial("gateway"))
	info, err := gateway.GetInfo(ctx, &gatewayv1.GetInfoRequest{})
	if err != nil {
		return Ready{}, err
	}
	r := Ready{BaseURL: info.GetBaseUrl(), LaunchURL: info.GetBaseUrl()}
	if info.GetAuthMode() == "loopback" {
		launch, err := gateway.IssueLaunch(ctx, &gatewayv1.IssueLaunchRequest{})
		if err != nil {
			return Ready{}, err
		}
		r.LaunchURL = launch.GetUrl()
	}
	return r, held.publish(Info{PID: os.Getpid(), URL: info.GetBaseUrl(), Version: version.String()})
}
