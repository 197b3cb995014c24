package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/gateway/internal/core/access"
	"kaged.dev/services/gateway/internal/core/rates"
)

// The headers and cookies of the contract.
const (
	headerRequestID = "X-Kaged-Request-Id"
	headerVersion   = "X-Kaged-Daemon-Version"
	headerConsole   = "X-Kaged-Console"
	headerWarning   = "X-Kaged-Warning"
	headerUserID    = "X-Kaged-User-Id"
	headerEmail     = "X-Kaged-User-Email"
	headerGroups    = "X-Kaged-User-Groups"
	headerNonce     = "X-Kaged-Auth-Nonce"
	headerCSRF      = "X-Kaged-CSRF"
	headerToken     = "Authorization"
	headerType      = "Content-Type"
	headerIfMatch   = "If-Match" // the version that the request changes
	cookieSession   = "kaged_session"
	cookieCSRF      = "kaged_csrf"
)

type layer func(http.Handler) http.Handler

// around wraps h in layers, the first of them outermost.
func around(h http.Handler, layers ...layer) http.Handler {
	for i := len(layers) - 1; i >= 0; i-- {
		h = layers[i](h)
	}
	return h
}

// every returns the layers of every request, outermost first.
func (s *Server) every() []layer {
	return []layer{
		s.stamp,   // first, so that each answer has the request id, the version and the warnings
		s.log,     // around recover, so that it logs the status after a panic too
		s.recover, // innermost of these, so that it answers a panic of the layers below
	}
}

// api returns the layers of all routes but probes, outermost first.
func (s *Server) api() []layer {
	return []layer{
		s.known, // before sign-in, so that a foreign page does not learn that the gateway needs one
		s.room,  // before other work, so that a stopping or full gateway refuses at once
		s.bound, // around all calls of backends
	}
}

// unbound returns the layers of streams: those of api without the timeout.
func (s *Server) unbound() []layer { return []layer{s.known, s.room} }

// protected returns the layers of routes for signed-in operators and tokens of a scope, outermost first. They are
// inside of api.
func (s *Server) protected(needed access.Scope) []layer {
	return s.protectedWith(needed, rates.General, "")
}

// protectedWith returns the layers of a route with a rate limit. textBody is the field that takes a body of
// text/plain, or "".
func (s *Server) protectedWith(needed access.Scope, limit, textBody string) []layer {
	return []layer{
		s.authenticate,   // the only layer that depends on the auth mode
		s.administering,  // before scoped, so that only administrators learn that the route exists
		s.scoped(needed), // before record, so that a refused token leaves one record only
		s.limited(limit), // before record, so that refused floods leave no records
		s.record,         // needs the operator; before csrf, so that refusals in insecure mode are recorded too
		s.csrf,           // needs the operator, to whom the CSRF token belongs
		s.body(textBody), // last, so that only the body of an allowed request is read
	}
}

// stamp gives the request an id and sets the headers of every answer.
func (s *Server) stamp(next http.Handler) http.Handler {
	warnings := strings.Join(s.deps.Info.Warnings(), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, requestID: ident.New(), server: s}
		h := w.Header()
		h.Set(headerRequestID, x.requestID)
		h.Set(headerVersion, s.deps.Info.Version)
		h.Set(headerConsole, s.console.Build) // lets an open page detect that the daemon has a different console
		if warnings != "" {
			h.Set(headerWarning, warnings)
		}
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer") // a launch URL contains a token
		ctx := ident.WithCaller(withExchange(r.Context(), x), ident.Caller{RequestID: x.requestID})
		next.ServeHTTP(x, r.WithContext(ctx))
	})
}

// log writes one line per request, at level debug for reads. It omits the query, because a launch URL contains a
// token.
func (s *Server) log(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		next.ServeHTTP(w, r)
		x := exchangeOf(r)
		level := slog.LevelInfo
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			level = slog.LevelDebug
		}
		s.deps.Log.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", x.status, "bytes",
			x.bytes,
			"took", time.Since(start), "request_id", x.requestID, "user_id", x.identity.UserID, "remote", r.RemoteAddr)
	})
}

// recover answers a panic with fault.Internal, and logs its stack with the request id.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			x := exchangeOf(r)
			s.deps.Log.ErrorContext(r.Context(), "handler panicked", "request_id", x.requestID, "method", r.Method, "path",
				r.URL.Path,
				"panic", v, "stack", string(debug.Stack()))
			if !x.hijacked {
				s.refuse(w, r, fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause."))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// known refuses a foreign Host or Origin.
func (s *Server) known(next http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		if !s.deps.Hosts.AllowsHost(r.Host) {
			return s.denied(r, "host_not_allowed", fault.New(fault.Forbidden,
				"The host %q is not this gateway's; use its listen address, or start it with --ui-url.", r.Host).
				With("reason", "host_not_allowed"))
		}
		for _, origin := range r.Header.Values("Origin") {
			if !s.deps.Hosts.AllowsOrigin(origin) {
				return s.denied(r, "origin_not_allowed", fault.New(fault.Forbidden,
					"Pages of the origin %q may not use this gateway.", origin).With("reason", "origin_not_allowed"))
			}
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// room refuses requests while the gateway stops, and above the number of requests that are served at once.
func (s *Server) room(next http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		n := s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
		if s.draining.Load() {
			return fault.New(fault.Unavailable, "The gateway is stopping; try again shortly.").With("subsystem", "gateway")
		}
		if n > int64(s.deps.Limits.Requests) {
			return full()
		}
		exchangeOf(r).holds = true
		next.ServeHTTP(w, r)
		return nil
	})
}

func full() error {
	return fault.New(fault.Unavailable, "The gateway is at its request limit; try again shortly.").
		With("subsystem", "gateway")
}

// bound sets the timeout of a request. The lifetime of an upgraded socket does not depend on it.
func (s *Server) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.deps.Limits.Time)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// identityHeaders are the headers that name and prove the operator, in the modes that read them.
var identityHeaders = []string{headerUserID, headerEmail, headerGroups, headerNonce}

// repeatedHeader is the reason of refusing a request in which a header is repeated.
const repeatedHeader access.Reason = "repeated_header"

// repeated returns the first header with more than one value among those that the mode reads, or "". If a proxy
// appends its header instead of replacing the client's, the order of the two would decide.
func repeated(h http.Header, mode access.Mode) string {
	read := []string{headerCSRF, headerType, headerIfMatch}
	if mode != access.Loopback {
		read = append(read, identityHeaders...)
	}
	if mode != access.Insecure {
		read = append(read, headerToken)
	}
	for _, name := range read {
		if len(h.Values(name)) > 1 {
			return name
		}
	}
	return ""
}

// authenticate identifies the caller of the request.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		id, reason, err := s.identify(r)
		if reason != "" {
			return s.denied(r, string(reason), err)
		}
		if err != nil {
			return err
		}
		x := exchangeOf(r)
		x.identity = id
		next.ServeHTTP(w, r.WithContext(ident.WithCaller(r.Context(), s.caller(r, id))))
		return nil
	})
}

// identify returns the caller, as [access.Gate.Identify] does. It fails with bad_request if a header that counts is
// repeated.
func (s *Server) identify(r *http.Request) (access.Identity, access.Reason, error) {
	if name := repeated(r.Header, s.deps.Gate.Mode); name != "" {
		return access.Identity{}, repeatedHeader, fault.New(fault.BadRequest,
			"The request has more than one %s; send one, and have the proxy replace what clients send.", name).
			With("reason", string(repeatedHeader)).With("header", name)
	}
	return s.deps.Gate.Identify(r.Context(), access.Credentials{
		Session: cookie(r, cookieSession), UserID: r.Header.Get(headerUserID), Email: r.Header.Get(headerEmail),
		Groups: r.Header.Get(headerGroups), Nonce: r.Header.Get(headerNonce), Token: bearer(r),
	})
}

// bearer returns the API token of a request. It returns "" without one, and for bearer credentials of other forms.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get(headerToken), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(token, access.TokenPrefix) {
		return ""
	}
	return token
}

// scoped refuses tokens with a smaller scope. A signed-in operator needs no scope.
func (s *Server) scoped(needed access.Scope) layer {
	return func(next http.Handler) http.Handler {
		return s.answered(func(w http.ResponseWriter, r *http.Request) error {
			id := exchangeOf(r).identity
			if id.Token == "" || id.Scope.Allows(needed) {
				next.ServeHTTP(w, r)
				return nil
			}
			err := fault.New(fault.Forbidden, "The token's scope is %q; this needs %q.", id.Scope, needed)
			if needed == access.NoToken {
				err = fault.New(fault.Forbidden, "No token may do this; sign in, or use `kaged token`.")
			}
			reason := string(access.TooSmall)
			err = err.With("reason", reason).With("scope", string(id.Scope)).With("needed", string(needed))
			return s.denied(r, reason, err)
		})
	}
}

// adminPath is the prefix of the administrators' routes.
const adminPath = "/api/v1/admin/"

// administering answers the administrators' routes with not_found for all other callers, as if the routes did not
// exist.
func (s *Server) administering(next http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		if strings.HasPrefix(r.URL.Path, adminPath) && !exchangeOf(r).identity.Admin {
			return fault.New(fault.NotFound, "There is no route %s.", shown(r.URL.Path))
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// limited refuses requests above an operator's rate limit.
func (s *Server) limited(limit string) layer {
	return func(next http.Handler) http.Handler {
		return s.answered(func(w http.ResponseWriter, r *http.Request) error {
			if err := s.deps.Rates.Allow(r.Context(), exchangeOf(r).identity.UserID, limit); err != nil {
				return err
			}
			next.ServeHTTP(w, r)
			return nil
		})
	}
}

// caller returns the caller as the services receive it with each call.
func (s *Server) caller(r *http.Request, id access.Identity) ident.Caller {
	c := ident.Caller{
		UserID: id.UserID, Email: id.Email, RequestID: exchangeOf(r).requestID, AuthMode: string(s.deps.Gate.Mode),
	}
	if id.Token != "" {
		c.AuthMode = "token"
	}
	if id.Admin {
		c.Role = ident.Admin
	}
	return c
}

// record writes audit records of all requests in insecure mode, and of a token's requests that may change state.
func (s *Server) record(next http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.note(r); err != nil {
			return err
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// note writes the audit record of a request, if [Server.record] asks for one.
func (s *Server) note(r *http.Request) error {
	x := exchangeOf(r)
	if x.identity.Token != "" && !reads(r) {
		return s.deps.Audit.Record(r.Context(), access.Entry{
			Type: "auth.token_used", UserID: x.identity.UserID, RequestID: x.requestID, Payload: map[string]any{
				"token_id": x.identity.Token, "scope": string(x.identity.Scope), "method": r.Method,
				"path": shown(r.URL.Path), "remote": r.RemoteAddr,
			},
		})
	}
	if s.deps.Gate.Mode != access.Insecure {
		return nil
	}
	return s.deps.Audit.Record(r.Context(), access.Entry{
		Type: "auth.request", UserID: x.identity.UserID, RequestID: x.requestID,
		Payload: map[string]any{
			"auth_mode": string(access.Insecure), "method": r.Method, "path": shown(r.URL.Path), "remote": r.RemoteAddr,
		},
	})
}

// reads reports whether a request has a method that only reads.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// csrf checks the CSRF token of requests that may change state, in every auth mode.
func (s *Server) csrf(next http.Handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		if reads(r) {
			next.ServeHTTP(w, r)
			return nil
		}
		if err := s.checkCSRF(r, r.Header.Get(headerCSRF)); err != nil {
			return err
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// checkCSRF fails if the CSRF token is missing or wrong. Requests with an API token need none, because a page of
// another origin cannot send one.
func (s *Server) checkCSRF(r *http.Request, sent string) error {
	if exchangeOf(r).identity.Token != "" {
		return nil
	}
	err := access.CheckCSRF(r.Context(), s.deps.Gate.Secrets, exchangeOf(r).identity.UserID, sent, cookie(r, cookieCSRF))
	if fault.CodeOf(err) == fault.Forbidden {
		return s.denied(r, "csrf_mismatch", err)
	}
	return err
}

// body refuses bodies that are too large or not JSON, and reads the others. If the route allows it, a body of
// text/plain becomes JSON with one field.
func (s *Server) body(textBody string) layer {
	limit := s.deps.Limits.Body
	return func(next http.Handler) http.Handler {
		return s.answered(func(w http.ResponseWriter, r *http.Request) error {
			contentType := r.Header.Get(headerType)
			asText := textBody != "" && isMedia(contentType, "text/plain")
			switch {
			case (r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody) && !asText:
				next.ServeHTTP(w, r)
				return nil
			case r.ContentLength > limit:
				return tooLarge(limit)
			case !asText && !isMedia(contentType, "application/json"):
				return fault.New(fault.BadRequest,
					"The body's Content-Type is %q; send application/json; charset=utf-8.", contentType)
			}
			body, err := s.receive(w, r)
			if err == nil && asText {
				body, err = fieldOf(textBody, body)
			}
			if err != nil {
				return err
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			next.ServeHTTP(w, r)
			return nil
		})
	}
}

// fieldOf returns a text as a JSON object with one field.
func fieldOf(name string, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, fault.New(fault.BadRequest, "The body is not UTF-8.")
	}
	return json.Marshal(map[string]string{name: string(text)})
}

func tooLarge(limit int64) error {
	return fault.New(fault.PayloadTooLarge, "The body is larger than %d bytes.", limit).With("limit_bytes", int(limit))
}

func isMedia(contentType, want string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	return err == nil && media == want && (!given || strings.EqualFold(charset, "utf-8"))
}

// denied writes an audit record of a refusal and returns err.
func (s *Server) denied(r *http.Request, reason string, err error) error {
	x := exchangeOf(r)
	s.deps.Audit.Denied(access.Entry{
		Type: "auth.denied", UserID: x.identity.UserID, RequestID: x.requestID,
		Payload: map[string]any{
			"reason": reason, "auth_mode": string(s.deps.Gate.Mode), "method": r.Method, "path": shown(r.URL.Path),
			"remote": r.RemoteAddr,
		},
	})
	return err
}

// maxAudited is the maximum length in bytes of a text from the request that is recorded or repeated in an error.
const maxAudited = 512

func shown(s string) string { return strings.ToValidUTF8(clip.Bytes(s, maxAudited), "") }

func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
