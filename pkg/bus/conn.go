package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kaged.dev/pkg/fault"
)

// Timing of connections.
const (
	connectTimeout = 5 * time.Second
	reconnectWait  = 100 * time.Millisecond
	reconnectMore  = 200 * time.Millisecond // at most; random, so that many clients do not reconnect at once
	pingInterval   = 15 * time.Second       // two pings without an answer end a connection
	requestTimeout = 5 * time.Second        // for callers without a deadline
)

// Config is the address and the credentials of NATS.
type Config struct {
	// URL is the server's address, with a user and password or a token if the server requires one. Commas separate
	// several. It may be empty if InProcess is set.
	URL string
	// InProcess connects to a server in this process, nil for another process.
	InProcess nats.InProcessConnProvider
	// User is the service. Answers to its requests come on subjects below _INBOX.<User>, which the server can deny to
	// other users; empty for subjects below _INBOX.
	User string
	// Files are the client's credentials and the CAs of the server.
	Files Files
	// Name appears in the server's monitoring.
	Name string
	// Log gets disconnects and reconnects; nil discards them.
	Log *slog.Logger
}

// Conn is a connection that reconnects whenever it is lost. Its methods may be called from any goroutine.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	closed chan struct{}

	mu    sync.Mutex // guards the fields below
	lives map[*Subscription]bool
	up    context.Context // ends when the connection in use is lost
	down  context.CancelFunc
}

// Connect connects. It returns fault.Unavailable with details.subsystem "bus" if the server cannot be reached now; once
// connected it never gives up. The caller calls Close.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	if ctx.Err() != nil {
		return nil, fault.From(ctx.Err())
	}
	c := &Conn{log: cfg.Log, closed: make(chan struct{}), lives: map[*Subscription]bool{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.up, c.down = context.WithCancel(context.Background())
	opts := []nats.Option{
		nats.Name(cfg.Name), nats.Timeout(timeLeft(ctx)), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectMore, reconnectMore), nats.PingInterval(pingInterval), nats.IgnoreAuthErrorAbort(),
		// A message that cannot be sent now fails now. The caller of a publish buffered over an outage would be gone.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(c.disconnected), nats.ReconnectHandler(c.reconnected),
		nats.ErrorHandler(c.asyncError), nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	}
	if cfg.User != "" {
		opts = append(opts, nats.CustomInboxPrefix("_INBOX."+cfg.User))
	}
	proofs, err := cfg.Files.options(c.log)
	if err != nil {
		c.down()
		return nil, err
	}
	opts = append(opts, proofs...)
	if cfg.InProcess != nil {
		opts = append(opts, nats.InProcessServer(cfg.InProcess))
	}
	if c.nc, err = nats.Connect(cfg.URL, opts...); err != nil {
		c.down()
		return nil, unavailable(err, "NATS cannot be reached%s.", at(cfg))
	}
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(requestTimeout)); err != nil {
		c.Close()
		return nil, fault.From(fmt.Errorf("jetstream client: %w", err))
	}
	return c, nil
}

func timeLeft(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Millisecond, min(connectTimeout, time.Until(end)))
	}
	return connectTimeout
}

// at describes the address of the server, without its password.
func at(cfg Config) string {
	if cfg.InProcess != nil {
		return " in this process"
	}
	if u, err := url.Parse(cfg.URL); err == nil && u.Host != "" {
		return " at " + u.Host
	}
	return ""
}

// Ready returns nil while the connection stands, fault.Unavailable otherwise.
func (c *Conn) Ready() error {
	if c.nc.IsConnected() {
		return nil
	}
	return unavailable(c.nc.LastError(), "NATS cannot be reached; messages are delayed.")
}

// Close ends the connection and its subscriptions, and returns when their goroutines have ended. It may be called
// twice, and not from a handler.
func (c *Conn) Close() {
	c.nc.Close()
	<-c.closed
	for _, s := range c.live() {
		<-s.closed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down()
}

// MaxPayload returns the maximum size of a message in bytes, headers included.
func (c *Conn) MaxPayload() int64 { return c.nc.MaxPayload() }

func (c *Conn) disconnected(nc *nats.Conn, err error) {
	c.mu.Lock()
	c.down()
	c.mu.Unlock()
	if !nc.IsClosed() {
		c.log.Warn("NATS was lost", "error", err)
	}
}

func (c *Conn) reconnected(*nats.Conn) {
	c.mu.Lock()
	c.up, c.down = context.WithCancel(context.Background())
	c.mu.Unlock()
	c.log.Info("NATS is back")
	for _, s := range c.live() {
		s.reportLoss()
	}
}

// live returns the open subscriptions.
func (c *Conn) live() []*Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.lives))
}

func (c *Conn) asyncError(_ *nats.Conn, _ *nats.Subscription, err error) {
	c.log.Warn("NATS reports an error", "error", err)
	if !errors.Is(err, nats.ErrSlowConsumer) {
		return
	}
	for _, s := range c.live() {
		s.reportLoss()
	}
}

// guard limits work on the connection by time, and ends it with the connection, since the answer is lost with it.
func (c *Conn) guard(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	c.mu.Lock()
	up := c.up
	c.mu.Unlock()
	stop := context.AfterFunc(up, cancel)
	return ctx, func() { stop(); cancel() }
}

// request sends a message and waits for one answer.
func (c *Conn) request(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	guarded, cancel := c.guard(ctx)
	defer cancel()
	answer, err := c.nc.RequestMsgWithContext(guarded, msg)
	if err != nil && ctx.Err() != nil {
		return nil, fault.From(ctx.Err())
	}
	return answer, err
}
