package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/version"
)

// DefaultConnect is the default of the connect limit of [NewClient].
const DefaultConnect = 10 * time.Second

const (
	// maxErrorBody limits the bytes read of a refusal's body, errorBodyTime the time. The status alone already decides the
	// error's code.
	maxErrorBody  = 64 << 10
	errorBodyTime = 5 * time.Second
)

// NewClient returns the client for all model calls of a process. Its connections are kept and shared, enough for
// several hundred streams at once. Compression is off, because it would delay deltas. connect limits the time of
// connecting, and again that of the TLS handshake. There are no other timeouts: a call's context and its [Options] end
// it. The proxies are those of the environment. The caller closes its idle connections.
func NewClient(connect time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   connect,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}}
}

// UserAgent is kaged's User-Agent header for providers, unless a target's headers set one.
func UserAgent() string { return "kaged/" + version.String() }

// Client returns a copy of base that is safe for calls with a key: it follows no redirects, which would send the key to
// another host; unsuccessful answers become a [*StatusError] with a limited part of the body; and it has no timeout. It
// uses base's connections. A nil base is http.DefaultClient.
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

// bodyTransport sends requests with a given body.
type bodyTransport struct {
	next http.RoundTripper
	body *Body
}

func (t bodyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return t.next.RoundTrip(t.body.put(req))
}

// holdTransport sends a request after hold has returned. body describes the body of the request; nil means that it must
// be read first. The round trip does not begin earlier with a body that waits for hold: net/http writes the header
// fields before such a body, and then does not repeat the request if the provider closes a kept connection.
type holdTransport struct {
	next http.RoundTripper
	body *llm.Body
	hold func(context.Context, llm.Body) error
}

func (t holdTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := t.body, error(nil)
	if body == nil {
		body = new(llm.Body)
		req, *body, err = summed(req)
	}
	if err == nil {
		err = t.hold(req.Context(), *body)
	}
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	return t.next.RoundTrip(req)
}

// summed returns a request with the hash of its unread body.
func summed(req *http.Request) (*http.Request, llm.Body, error) {
	var body llm.Body
	sum := sha256.New()
	switch {
	case req.Body == nil || req.Body == http.NoBody:
	case req.GetBody != nil:
		again, err := req.GetBody()
		if err != nil {
			return req, body, err
		}
		defer again.Close()
		if body.Size, err = io.Copy(sum, again); err != nil {
			return req, body, err
		}
	default:
		data, err := io.ReadAll(req.Body)
		if err := cmp.Or(err, req.Body.Close()); err != nil {
			return req, body, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(data))
		body.Size = int64(len(data))
		sum.Write(data)
	}
	sum.Sum(body.SHA256[:0])
	return req, body, nil
}

type statusTransport struct{ next http.RoundTripper }

func (t statusTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, err
	}
	// A truncated or endless body does not change the meaning of the status.
	return nil, &StatusError{Status: resp.StatusCode, Header: resp.Header, Body: errorBody(resp)}
}

// errorBody reads the useful part of an answer that is not a stream, and closes it. It does not unpack a body that was
// compressed without a request for it: the body is not a sentence, and its unpacked size is unlimited.
func errorBody(resp *http.Response) []byte {
	defer resp.Body.Close()
	if encoded(resp.Header) {
		return nil
	}
	late := time.AfterFunc(errorBodyTime, func() { resp.Body.Close() })
	defer late.Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return body
}

// encoded reports whether a body is compressed or otherwise encoded.
func encoded(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return e != "" && !strings.EqualFold(e, "identity")
}
