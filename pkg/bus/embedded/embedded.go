// Package embedded runs a NATS server with JetStream inside this process, for machines without a NATS server.
//
// The server has no network listener: it is reached through [Server.InProcessConn], which package bus takes. Its data
// is in one folder, and a publish is acknowledged after the write to the operating system. It survives a kill of the
// process; a power cut can lose the last two minutes. One process at a time may use a folder.
//
// A server has the goroutines of nats-server, some twenty, and two for each connection. [Server.Stop] ends them and
// waits.
package embedded

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"kaged.dev/pkg/fault"
)

// Defaults of [Options].
const (
	DefaultMaxStore  = 1 << 30
	DefaultMaxMemory = 64 << 20
)

// maxPayload is the maximum size of a message. Large values are passed by reference; the limit has room for a burst of
// frames in one batch.
const maxPayload = 1 << 20

// startLimit is the time limit for reading the stored data.
const startLimit = time.Minute

// Options are the settings of a server.
type Options struct {
	// StoreDir is the folder of the streams; it is created if missing.
	StoreDir string
	// Log gets the server's warnings, errors and notices; nil discards them.
	Log *slog.Logger
	// MaxStore and MaxMemory limit streams on disk and in memory, in bytes; 0 means the defaults.
	MaxStore, MaxMemory int64
	// MaxPayload limits a message, in bytes; 0 means 1 MiB, as kaged expects.
	MaxPayload int32
	// Listen is host:port of an additional TCP listener, for tests that cut connections; port 0 picks one. It requires
	// Token.
	Listen, Token string
}

// Server is a running server. Its methods may be called from any goroutine.
type Server struct {
	ns    *server.Server
	token string
}

// Start starts a server and returns when JetStream is ready. The caller calls Stop. It returns
// fault.Unavailable with details.subsystem "bus" if the folder cannot be used or its data cannot be
// read.
func Start(opts Options) (*Server, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	o, err := serverOptions(opts)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(opts.StoreDir, 0o700); err != nil {
		return nil, failed(err, "The folder %s for NATS cannot be made.", opts.StoreDir)
	}
	ns, err := server.NewServer(o)
	if err != nil {
		return nil, failed(err, "NATS cannot be set up in %s.", opts.StoreDir)
	}
	log := &logAdapter{log: opts.Log}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	s := &Server{ns: ns, token: opts.Token}
	if log.fatal() || !ns.ReadyForConnections(startLimit) || !ns.JetStreamEnabled() {
		s.Stop()
		return nil, failed(errors.New(log.last()), "NATS did not start in %s.", opts.StoreDir)
	}
	return s, nil
}

func serverOptions(opts Options) (*server.Options, error) {
	o := &server.Options{
		ServerName: "kaged", DontListen: opts.Listen == "", NoSigs: true,
		JetStream: true, StoreDir: opts.StoreDir, DisableJetStreamBanner: true,
		JetStreamMaxStore: opts.MaxStore, JetStreamMaxMemory: opts.MaxMemory, MaxPayload: opts.MaxPayload,
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = maxPayload
	}
	if o.JetStreamMaxStore <= 0 {
		o.JetStreamMaxStore = DefaultMaxStore
	}
	if o.JetStreamMaxMemory <= 0 {
		o.JetStreamMaxMemory = DefaultMaxMemory
	}
	if opts.Listen == "" {
		return o, nil
	}
	host, port, err := net.SplitHostPort(opts.Listen)
	if err == nil {
		o.Port, err = strconv.Atoi(port)
	}
	if err != nil || opts.Token == "" {
		return nil, failed(err, "NATS needs host:port and a token to listen.")
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.Host, o.Authorization = host, opts.Token
	return o, nil
}

// InProcessConn connects to the server without a network.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// Addr is the host:port of the listener, "" without one.
func (s *Server) Addr() string {
	if addr := s.ns.Addr(); addr != nil {
		return addr.String()
	}
	return ""
}

// URL is the server's address with its token, "" without a listener. Do not log it.
func (s *Server) URL() string {
	if s.Addr() == "" {
		return ""
	}
	u := url.URL{Scheme: "nats", User: url.User(s.token), Host: s.Addr()}
	return u.String()
}

// Stop ends the server and its connections, and returns when all goroutines have ended. It may be called twice.
func (s *Server) Stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

func failed(err error, format string, args ...any) *fault.Error {
	return fault.Wrap(err, fault.Unavailable, format, args...).With("subsystem", "bus")
}
