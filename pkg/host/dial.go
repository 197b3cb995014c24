package host

import (
	"log/slog"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/ownpath"
)

// Elsewhere connects to services of other processes with this configuration and data directory, as a service would, for
// commands without services of their own. The caller must close it.
type Elsewhere struct{ host *Host }

// NewElsewhere returns an Elsewhere for the services that run with a configuration and a data directory. Connections
// are made on first use. It fails with bad_request for an unreadable service token, unusable certificates and
// impossible limits.
func NewElsewhere(file *config.File, dataDir ownpath.Path, getenv func(string) string) (*Elsewhere, error) {
	token, err := serviceToken(file, getenv)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	identity, err := loadTLS(file, getenv, log)
	if err != nil {
		return nil, err
	}
	opts := Options{File: file, DataDir: dataDir, Getenv: getenv, Log: log}
	limits, err := limitsOf(opts)
	if err != nil {
		return nil, err
	}
	h := &Host{opts: opts, token: token, tls: identity, limits: limits}
	h.conns.host = h
	return &Elsewhere{h}, nil
}

// Dial returns a connection to a service, as [Env.Dial] does.
func (e *Elsewhere) Dial(name string) grpc.ClientConnInterface { return e.host.Dial(name) }

// Close closes the connections.
func (e *Elsewhere) Close() { e.host.conns.close() }
