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
	// maxHeader limits the header of a request and of a response, in bytes.
	maxHeader = 64 << 10
	// kept is the number of idle connections per host, and keptFor their lifetime.
	kept    = 4
	keptFor = 30 * time.Second
	// tlsPort is the default port of https URLs.
	tlsPort = 443
)

// serveCredential forwards plain HTTP requests over TLS with the route's credential, until ctx ends.
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
	_ = server.Serve(&slotted{TCPListener: l, gate: g, ctx: ctx}) // returns when the listener is closed
	server.Close()
	conns.Wait()
	transport.CloseIdleConnections()
}

// slotted is a listener that accepts connections with a free slot only.
type slotted struct {
	*net.TCPListener
	gate *Gate
	ctx  context.Context
	pace pace
}

// Accept returns the next connection, at the gate's maximum rate.
func (s *slotted) Accept() (net.Conn, error) {
	s.pace.rest(s.ctx)
	conn, err := s.gate.next(s.ctx, s.TCPListener)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// bound is a connection that closes with the gate: net/http would keep an abandoned one open.
type bound struct {
	*net.TCPConn
	stop func() bool
}

// Close implements net.Conn.
func (b *bound) Close() error {
	b.stop()
	return b.TCPConn.Close()
}

// transport connects to the route's host over TLS, and to no other host, until ctx ends.
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

// injector handles requests to a host with a credential.
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
		FlushInterval: -1, // streams are flushed immediately
		ErrorLog:      log.New(discard{}, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = to.Scheme, to.Host, to.Host
			p.Out.Header.Set(c.Header, string(c.Value))
			p.Out.Header.Set("Accept-Encoding", "identity") // an encoded body could not be masked
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
			if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
				why = fmt.Sprintf("the body is longer than %d bytes (net_credential_body)", long.Limit)
				status = http.StatusRequestEntityTooLarge
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
			refuse(http.StatusMisdirectedRequest,
				fmt.Sprintf("the program asked for %s in a connection to %s", printable(req.Host), r.host))
		case req.Method == http.MethodConnect || req.Method == http.MethodTrace:
			refuse(http.StatusMethodNotAllowed, req.Method+" is not sent with a credential")
		case req.Header.Get("Upgrade") != "":
			refuse(http.StatusNotImplemented,
				"a connection with a credential cannot be upgraded to another protocol; call "+to.String()+" itself")
		case c.Missing != "":
			refuse(http.StatusBadGateway, c.Missing)
		default:
			g.attempts.add(target, true, r.rule)
			req.Body = http.MaxBytesReader(w, req.Body, g.opts.BodyBytes)
			proxy.ServeHTTP(&masked{w, words}, req)
		}
	})
}

// masked is a response with words overwritten in its headers, including those of 1xx responses.
type masked struct {
	http.ResponseWriter
	words [][]byte
}

// WriteHeader implements http.ResponseWriter.
func (m *masked) WriteHeader(status int) {
	maskHeader(m.Header(), m.words)
	m.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the writer to flush.
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

// stay rewrites redirections to the host itself, so that the program stays on its plain HTTP address.
func stay(header http.Header, outside, inside string) {
	for _, name := range []string{"Location", "Content-Location"} {
		if u, err := url.Parse(header.Get(name)); err == nil && u.Scheme == "https" && strings.EqualFold(u.Host, outside) {
			u.Scheme, u.Host = "http", inside
			header.Set(name, u.String())
		}
	}
}

// discard drops the proxy's log; ErrorHandler reports its errors as attempts.
type discard struct{}

// Write implements io.Writer.
func (discard) Write(p []byte) (int, error) { return len(p), nil }
