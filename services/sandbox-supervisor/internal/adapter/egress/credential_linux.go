package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// maxHeader is the largest header of a request and of its response.
	maxHeader = 64 << 10
	// kept is how many idle connections to a host are kept for its next requests, and keptFor how long.
	kept    = 4
	keptFor = 30 * time.Second
	// tlsPort is the port that goes without saying.
	tlsPort = 443
)

// serveCredential takes plain requests and sends them on by TLS with the route's credential, until ctx ends.
func (g *Gate) serveCredential(ctx context.Context, l *net.TCPListener, r *route) {
	var conns sync.WaitGroup
	transport := g.transport(ctx, r)
	server := &http.Server{
		Handler:           g.injector(r, transport),
		ReadHeaderTimeout: g.opts.HelloTimeout,
		IdleTimeout:       g.opts.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(g.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				<-g.slots
				conns.Done()
			}
		},
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	_ = server.Serve(&slotted{TCPListener: l, gate: g, ctx: ctx}) // it ends with the listener
	server.Close()
	conns.Wait()
	transport.CloseIdleConnections()
}

// slotted is a listener of connections that have a slot.
type slotted struct {
	*net.TCPListener
	gate *Gate
	ctx  context.Context
	pace pace
}

// Accept returns the next connection.
func (s *slotted) Accept() (net.Conn, error) {
	s.pace.rest(s.ctx)
	conn, err := s.gate.next(s.ctx, s.TCPListener)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// bound is a connection that ends with the gate: package net/http lets those live that nobody waits for any more.
type bound struct {
	*net.TCPConn
	stop func() bool
}

// Close closes it.
func (b *bound) Close() error {
	b.stop()
	return b.TCPConn.Close()
}

// transport speaks TLS to the route's host and to nobody else, until ctx ends.
func (g *Gate) transport(ctx context.Context, r *route) *http.Transport {
	return &http.Transport{
		DialContext: func(request context.Context, _, _ string) (net.Conn, error) {
			request, cancel := context.WithCancel(request)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			conn, err := g.dial(request, r)
			if err != nil {
				return nil, err
			}
			return &bound{conn, context.AfterFunc(ctx, func() { reset(conn) })}, nil
		},
		TLSClientConfig:        &tls.Config{RootCAs: g.opts.Outside.Roots, MinVersion: tls.VersionTLS12, ServerName: r.host},
		TLSHandshakeTimeout:    g.opts.ConnectTimeout,
		ResponseHeaderTimeout:  g.opts.IdleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    kept,
		MaxConnsPerHost:        g.opts.Connections,
		IdleConnTimeout:        keptFor,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}

// injector is what happens to a request for a host with a credential.
func (g *Gate) injector(r *route, transport http.RoundTripper) http.Handler {
	c := r.credential
	to := &url.URL{Scheme: "https", Host: r.host}
	if r.port != tlsPort {
		to.Host = hostPort(r.host, r.port)
	}
	target := r.target() + " (with credential)"
	words := c.words()
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // streams are passed as they come
		ErrorLog:      log.New(discard{}, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = to.Scheme, to.Host, to.Host
			p.Out.Header.Set(c.Header, string(c.Value))
			p.Out.Header.Set("Accept-Encoding", "identity") // what comes back can be looked at
			p.Out.Trailer = nil
		},
		ModifyResponse: func(resp *http.Response) error {
			stay(resp.Header, to.Host, r.host)
			resp.Body = &masking{ReadCloser: resp.Body, words: words, end: func() { maskHeader(resp.Trailer, words) }}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			if req.Context().Err() != nil {
				return
			}
			why, status := fmt.Sprintf("%s cannot be reached: %s", r.target(), reason(err)), http.StatusBadGateway
			var long *http.MaxBytesError
			if errors.As(err, &long) {
				why, status = fmt.Sprintf("the body is longer than %d bytes (net_credential_body)", long.Limit), http.StatusRequestEntityTooLarge
			}
			g.deny(target, why)
			http.Error(w, "kaged: "+why, status)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		refuse := func(status int, why string) {
			g.deny(target, why)
			w.Header().Set("Connection", "close")
			http.Error(w, "kaged: "+why, status)
		}
		switch {
		case withoutPort(req.Host) != r.host:
			refuse(http.StatusMisdirectedRequest, fmt.Sprintf("the program asked for %s in a connection to %s", printable(req.Host), r.host))
		case req.Method == http.MethodConnect || req.Method == http.MethodTrace:
			refuse(http.StatusMethodNotAllowed, req.Method+" is not sent with a credential")
		case req.Header.Get("Upgrade") != "":
			refuse(http.StatusNotImplemented, "a connection with a credential cannot become one of another protocol; call "+to.String()+" itself")
		case c.Missing != "":
			refuse(http.StatusBadGateway, c.Missing)
		default:
			g.attempts.add(target, true, r.rule)
			req.Body = http.MaxBytesReader(w, req.Body, g.opts.BodyBytes)
			proxy.ServeHTTP(&masked{w, words}, req)
		}
	})
}

// masked is a response in whose headers words are overwritten, those of interim responses too.
type masked struct {
	http.ResponseWriter
	words [][]byte
}

// WriteHeader sends a header.
func (m *masked) WriteHeader(status int) {
	maskHeader(m.Header(), m.words)
	m.ResponseWriter.WriteHeader(status)
}

// Unwrap gives [http.ResponseController] what it flushes.
func (m *masked) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// maskHeader overwrites words in the values of a header.
func maskHeader(header http.Header, words [][]byte) {
	for _, values := range header {
		for i, value := range values {
			text := []byte(value)
			mask(text, words)
			values[i] = string(text)
		}
	}
}

// stay has a redirection to where a request came from lead to where its client came from.
func stay(header http.Header, outside, inside string) {
	for _, name := range []string{"Location", "Content-Location"} {
		if u, err := url.Parse(header.Get(name)); err == nil && u.Scheme == "https" && strings.EqualFold(u.Host, outside) {
			u.Scheme, u.Host = "http", inside
			header.Set(name, u.String())
		}
	}
}

// discard is a log for what is told otherwise.
type discard struct{}

// Write does nothing.
func (discard) Write(p []byte) (int, error) { return len(p), nil }
