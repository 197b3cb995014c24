package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// maxErrorBody is how much of a refusal is read.
const maxErrorBody = 64 << 10

// NewClient returns the client for all model calls of a process: its connections are kept and shared, enough of them
// for some hundred streams at once, and compression is off because it would hold deltas back. It has no timeouts
// beyond connecting: a call's own context and [Options].Idle end it. Proxies are those of the environment. Close its idle
// connections when done.
func NewClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}}
}

// Client returns base made safe for calls that carry a key: it follows no redirects, which would take the key to
// another host; answers other than success become a [*StatusError] with a bounded part of the body, whatever the
// body is; and it has no timeout. Connections remain base's. A nil base is http.DefaultClient.
func Client(base *http.Client) *http.Client {
	if base == nil {
		base = http.DefaultClient
	}
	next := base.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return &http.Client{
		Transport:     statusTransport{next},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// holdTransport sends a request once hold returns.
type holdTransport struct {
	next http.RoundTripper
	hold func(context.Context) error
}

func (t holdTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.hold(req.Context()); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	return t.next.RoundTrip(req)
}

type statusTransport struct{ next http.RoundTripper }

func (t statusTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, err
	}
	defer resp.Body.Close()
	// A body that breaks off does not change what the status says.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return nil, &StatusError{Status: resp.StatusCode, Header: resp.Header, Body: body}
}
