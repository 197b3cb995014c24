package server

import (
	"cmp"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/httproute"
	"kaged.dev/proto/gen/backends"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/gateway/internal/core/access"
	"kaged.dev/services/gateway/internal/core/rates"
)

// routes returns the handler of all routes: the gateway's own, and those of the contract, which go to their
// backends.
func (s *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	api := func(h http.Handler) http.Handler { return around(h, s.api()...) }
	open := func(h handler) http.Handler { return api(s.answered(h)) }
	for _, r := range s.ownRoutes() {
		switch h := s.answered(r.handler); r.needed {
		case probe:
			mux.Handle(r.pattern, h)
		case anybody:
			mux.Handle(r.pattern, api(h))
		case endless:
			mux.Handle(r.pattern, around(around(h, s.protected(access.ScopeRead)...), s.unbound()...))
		default:
			mux.Handle(r.pattern, api(around(h, s.protected(r.needed)...)))
		}
	}

	transcoder, err := s.transcoder()
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The routes of the contract cannot be registered.")
	}
	for _, r := range contractRoutes() {
		layers := append([]layer{s.whole(r.pattern)}, s.protectedWith(r.needed, r.limit, r.textBody)...)
		mux.Handle(r.pattern, api(around(transcoder, layers...)))
	}
	unknown := open(func(_ http.ResponseWriter, r *http.Request) error { return unmatched(mux, r) })
	mux.Handle(anything, unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect a path that is not plain, and refuse "*".
		if !plain(r.URL.Path) || r.RequestURI == "*" {
			unknown.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// ownRoute is a route that the gateway answers itself.
type ownRoute struct {
	// pattern is "METHOD /path" for net/http.
	pattern string
	// needed is the minimum scope of a token, or anybody, probe or endless.
	needed  access.Scope
	handler handler
}

// The requirements of routes other than a scope.
const (
	anybody access.Scope = ""
	probe   access.Scope = "probe"
	// endless is the need of a route for tokens of the scope read with an answer without an end.
	endless access.Scope = "endless"
)

// ownRoutes returns the routes that the gateway answers itself. Package openapi describes them.
func (s *Server) ownRoutes() []ownRoute {
	routes := []ownRoute{
		{"GET /healthz", probe, s.healthz},
		{"GET /readyz", probe, s.readyz},
		{"GET /static/page.css", anybody, s.style},
		{"GET /static/{file}", anybody, s.static},
		{"GET /api/versions", anybody, s.versions},
		{"GET /api/v1/dsl/schema", anybody, s.dslSchema},
		{"GET /api/v1/launch", anybody, s.launch},
		{"GET /launch", anybody, s.launch},
		{"GET /api/v1/me", access.ScopeRead, s.me},
		{"POST /api/v1/auth/rotate", access.ScopeAdmin, s.signOutOthers},
		{"GET /api/v1/openapi.json", access.ScopeRead, s.openAPI},
		{"GET /docs/api", access.ScopeRead, s.docs},
		{"GET /docs/api/{file}", access.ScopeRead, s.docs},
		{"GET /api/v1/projects/{id}/download/{path...}", access.ScopeRead, s.download},
		{"GET /api/v1/sessions/{id}/stream", endless, s.stream},
		{"GET /api/v1/projects/{id}/logs/stream", endless, s.followLogs},
		{"GET /api/v1/socket", access.ScopeRead, s.systemSocket},
		{"GET /api/v1/sessions/{id}/socket", access.ScopeRun, s.socket},
	}
	for _, path := range consolePages {
		routes = append(routes, ownRoute{"GET " + path, anybody, s.page})
	}
	return routes
}

// OwnRoutes returns "METHOD /path" of every route that the gateway answers itself.
func OwnRoutes() []string {
	var patterns []string
	for _, r := range new(Server).ownRoutes() {
		patterns = append(patterns, r.pattern)
	}
	return patterns
}

// anything is the pattern that matches paths without a route.
const anything = "/"

// plain reports whether the mux may see a path. The mux would redirect a path with dots or double slashes, and a
// redirect loses the body. A path with NUL or invalid UTF-8 has no route, because neither gRPC nor Postgres accepts
// it.
func plain(p string) bool {
	return path.Clean(p) == p && utf8.ValidString(p) && !strings.Contains(p, "\x00")
}

// whole answers not_found if a path parameter contains a slash, written as %2F. The transcoder would split the
// parameter and match another route than the one that was checked.
func (s *Server) whole(pattern string) layer {
	var names []string
	for part := range strings.SplitSeq(pattern, "/") {
		name, ok := strings.CutPrefix(strings.TrimSuffix(part, "}"), "{")
		if ok && !strings.HasSuffix(name, "...") {
			names = append(names, name)
		}
	}
	return func(next http.Handler) http.Handler {
		return s.answered(func(w http.ResponseWriter, r *http.Request) error {
			for _, name := range names {
				if strings.Contains(r.PathValue(name), "/") {
					return fault.New(fault.NotFound, "There is no route %s.", shown(r.URL.Path))
				}
			}
			next.ServeHTTP(w, r)
			return nil
		})
	}
}

// unmatched returns the error of a request without a route: not_found, or method_not_allowed for a path with other
// methods.
func unmatched(mux *http.ServeMux, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != anything &&
			plain(r.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return fault.New(fault.NotFound, "There is no route %s.", shown(r.URL.Path))
	}
	return fault.New(fault.MethodNotAllowed, "%s does not take %s; it takes %s.", shown(r.URL.Path), shown(r.Method),
		strings.Join(allowed, ", ")).
		With("allowed", allowed)
}

// contractRoute is a route of a backend's service.
type contractRoute struct {
	// pattern is "METHOD /path" for net/http.
	pattern string
	// textBody is the request's field that takes a body of text/plain, or "".
	textBody string
	// needed is the minimum scope of a token.
	needed access.Scope
	// limit is the rate limit of its requests.
	limit string
}

// neededBy returns the minimum scope of a token for a route: the contract's if it names one, else read for GET and
// admin for other methods.
func neededBy(said, pattern string) access.Scope {
	switch {
	case said != "":
		return access.Scope(said)
	case strings.HasPrefix(pattern, http.MethodGet+" "):
		return access.ScopeRead
	}
	return access.ScopeAdmin
}

func contractRoutes() []contractRoute {
	var routes []contractRoute
	for method := range methods(backends.All()) {
		answer, _ := proto.GetExtension(method.Options(), apiv1.E_HttpAnswer).(*apiv1.HTTPAnswer)
		said, _ := proto.GetExtension(method.Options(), apiv1.E_TokenScope).(string)
		limit, _ := proto.GetExtension(method.Options(), apiv1.E_Rate).(string)
		for _, route := range httproute.Of(method) {
			pattern := route.Pattern()
			routes = append(routes, contractRoute{
				pattern, answer.GetTextBody(), neededBy(said, pattern), cmp.Or(limit, rates.General),
			})
		}
	}
	return routes
}

// ContractRoutes returns "METHOD /path" of every route of the backends' services.
func ContractRoutes() []string {
	var patterns []string
	for _, r := range contractRoutes() {
		patterns = append(patterns, r.pattern)
	}
	return patterns
}
