package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
)

// Client is a signed-in client of one daemon. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	csrf string
	// token is an API token; it may be "".
	token string
	// open is true if the daemon runs with --no-sandbox.
	open bool
}

// Open returns a client of the daemon at a base URL, signed in with an API token; use an empty token for a daemon
// without sign-in. It fails with unauthenticated for an invalid token, and with unavailable.
func Open(ctx context.Context, base, token string) (*Client, error) {
	c := New(base).WithToken(token)
	return c, c.Bootstrap(ctx)
}

// SignIn returns a client of the daemon at the unix socket of its gateway, for processes of the daemon's OS user. It
// fails with unavailable and forbidden.
func SignIn(ctx context.Context, socket string) (*Client, error) {
	conn, err := grpc.NewClient("unix:"+socket, rpc.DialOptions()...)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The daemon's socket %s cannot be used.", socket)
	}
	defer conn.Close()
	return SignInWith(ctx, conn)
}

// SignInWith returns a client of the daemon at the other end of conn.
func SignInWith(ctx context.Context, conn grpc.ClientConnInterface) (*Client, error) {
	gateway := gatewayv1.NewGatewayServiceClient(conn)
	info, err := gateway.GetInfo(ctx, &gatewayv1.GetInfoRequest{})
	if err != nil {
		return nil, err
	}
	c := New(info.GetBaseUrl())
	if info.GetAuthMode() != "loopback" {
		return c, c.Bootstrap(ctx)
	}
	launch, err := gateway.IssueLaunch(ctx, &gatewayv1.IssueLaunchRequest{})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(launch.GetUrl())
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The daemon's launch URL cannot be read.")
	}
	if err := c.Do(ctx, http.MethodGet, "/api/v1/launch?"+u.RawQuery, nil, nil); err != nil {
		return nil, err
	}
	return c, c.Bootstrap(ctx)
}

// New returns a client of the daemon at base that is not signed in.
func New(base string) *Client {
	jar, _ := cookiejar.New(nil) // it fails only for invalid options
	return &Client{
		base: strings.TrimSuffix(base, "/"),
		http: &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 8}},
	}
}

// WithToken makes c send an API token with each request, unless that is "". It returns c.
func (c *Client) WithToken(token string) *Client {
	c.token = token
	return c
}

// WithHeaders makes c send headers with each request to its daemon, as a sign-in proxy does. Sockets do not send them.
// It returns c, which must not be in use yet.
func (c *Client) WithHeaders(headers map[string]string) *Client {
	return c.WithTransport(func(inner http.RoundTripper) http.RoundTripper { return headed{inner, c.base + "/", headers} })
}

// headed adds headers to requests below a base URL, and not to those that a redirect sends elsewhere.
type headed struct {
	http.RoundTripper
	base    string
	headers map[string]string
}

// RoundTrip implements http.RoundTripper.
func (h headed) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.String(), h.base) {
		r = r.Clone(r.Context())
		for name, value := range h.headers {
			r.Header.Set(name, value)
		}
	}
	return h.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections closes those of the transport.
func (h headed) CloseIdleConnections() {
	if t, ok := h.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// WithTransport replaces the transport of requests by wrap's result, for example to trace them. Sockets have their own
// connections. It returns c, which must not be in use yet.
func (c *Client) WithTransport(wrap func(http.RoundTripper) http.RoundTripper) *Client {
	c.http.Transport = wrap(c.http.Transport)
	return c
}

// Bootstrap fetches the token for changing requests. With an insecure daemon, or with an API token, no other sign-in is
// needed.
func (c *Client) Bootstrap(ctx context.Context) error {
	var me struct {
		CSRF   string `json:"csrf_token"`
		Daemon struct {
			SandboxMode string `json:"sandbox_mode"`
		}
	}
	if err := c.Do(ctx, http.MethodGet, "/api/v1/me", nil, &me); err != nil {
		return err
	}
	c.csrf, c.open = me.CSRF, me.Daemon.SandboxMode == "disabled"
	return nil
}

// Sandboxed reports whether the daemon keeps caged agents in their cages.
func (c *Client) Sandboxed() bool { return !c.open }

// BaseURL is the daemon's base URL.
func (c *Client) BaseURL() string { return c.base }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// maxAnswer is the maximum size of an answer in bytes.
const maxAnswer = 64 << 20

// Do makes one request, for routes without a method. in is the JSON body, out receives the answer; both may be nil. An
// error of the API is returned as a *fault.Error.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	status, data, err := c.exchange(ctx, method, path, body)
	if err != nil {
		return err
	}
	if status >= http.StatusBadRequest {
		return apiFault(status, data)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fault.Wrap(err, fault.Internal, "The daemon's answer is not the JSON it should be.")
	}
	return nil
}

// exchange makes one request and reads the whole answer. It fails with unavailable and with ctx's error.
func (c *Client) exchange(ctx context.Context, method, path string, body []byte) (status int, data []byte, err error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return 0, nil, fault.Wrap(err, fault.BadRequest, "%s is no address of the API.", c.base+path)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	if method != http.MethodGet {
		req.Header.Set("X-Kaged-CSRF", c.csrf)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		return 0, nil, fault.Wrap(err, fault.Unavailable, "The daemon at %s cannot be reached.", c.base)
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fault.Wrap(err, fault.Unavailable, "The daemon's answer broke off.")
	}
	return resp.StatusCode, data, nil
}

func apiFault(status int, data []byte) error {
	var body struct {
		Error struct {
			Code, Message string
			Details       map[string]any
		}
	}
	if json.Unmarshal(data, &body) == nil {
		if code, ok := fault.ParseCode(body.Error.Code); ok {
			return &fault.Error{Code: code, Msg: body.Error.Message, Details: body.Error.Details, HTTP: status}
		}
	}
	return fault.New(fault.Internal, "The daemon answered with HTTP status %d.", status)
}
