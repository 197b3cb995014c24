package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// phase is the phase of a host's life.
type phase int32

const (
	starting phase = iota
	serving
	stopping
)

// probes answers Kubernetes and the like over HTTP without TLS: gRPC's health check is behind mTLS between hosts, and
// the gateway's own address may be on the loopback. The three probes differ:
//
//   - /startupz: every service has been ready once, migrations and first connections included;
//
// - /livez: the process answers. It checks no store, so that an outage does not restart processes;
// - /readyz: every service is ready and not stopping.
//
// Answers are 200 or 503 and a sentence. It has one goroutine, and net/http's for each connection.
type probes struct {
	host    *Host
	phase   atomic.Int32
	started atomic.Bool // every service has been ready once
	server  *http.Server
	served  chan struct{}
}

// probeListen returns the address of the probes, "" for no probes.
func (h *Host) probeListen() string {
	if h.opts.Private {
		return ""
	}
	own := ""
	if len(h.modules) == 1 {
		own = h.opts.File.Value(h.modules[0].Name, "probe_listen", h.opts.Getenv)
	}
	return config.Or(own, h.opts.Getenv("KAGED_PROBE_LISTEN"), h.opts.File.Telemetry.ProbeListen)
}

// startProbes answers probes until stop is called, which waits. It fails with unavailable if the address is in use.
func (h *Host) startProbes() (p *probes, stop func(), err error) {
	p = &probes{host: h, served: make(chan struct{})}
	address := h.probeListen()
	if address == "" {
		return p, func() {}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Unavailable,
			"Probes cannot be answered at %s: %s; see [telemetry] probe_listen.", address, err)
	}
	mux := http.NewServeMux()
	for path, look := range map[string]func(context.Context) error{
		"GET /livez":    func(context.Context) error { return nil },
		"GET /readyz":   p.ready,
		"GET /startupz": p.startup,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			if err := look(r.Context()); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, printable(fault.From(err).Msg))
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	p.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10,
	}
	go func() {
		defer close(p.served)
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.opts.Log.Error("probes are no longer answered", "error", err)
		}
	}()
	h.opts.Log.Info("probes are answered", "address", l.Addr().String())
	return p, func() { p.server.Close(); <-p.served }, nil
}

func (p *probes) enter(to phase) { p.phase.Store(int32(to)) }

func (p *probes) ready(ctx context.Context) error {
	switch phase(p.phase.Load()) {
	case starting:
		return fault.New(fault.Unavailable, "The process is starting.")
	case stopping:
		return fault.New(fault.Unavailable, "The process is stopping.")
	}
	for _, r := range p.host.modules {
		if _, why := r.health.look(ctx); why != "" {
			return fault.New(fault.Unavailable, "%s: %s", r.Name, why)
		}
	}
	p.started.Store(true)
	return nil
}

func (p *probes) startup(ctx context.Context) error {
	if p.started.Load() {
		return nil
	}
	return p.ready(ctx)
}
