package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// apiHost is a daemon with a data directory of its own and a token for plain requests.
type apiHost struct {
	*daemon
	token string
}

// apiPart is a measurement with a daemon of its own. prepare fills its data directory before.
type apiPart struct {
	name    string
	prepare func(context.Context, *world, string) error
	measure func(context.Context, *world, *apiHost) ([]Figure, error)
}

var apiParts = []apiPart{
	{name: "sockets", measure: measureSockets},
	{name: "replay", measure: measureReplay},
	{name: "routes", measure: measureRoutes},
	{name: "list", measure: measureList, prepare: fillSessions},
}

func apiPartNames() (names []string) {
	for _, p := range apiParts {
		names = append(names, p.name)
	}
	return names
}

// measureAPI measures kaged under many clients: sockets on busy sessions beside a bare relay, the replay of many
// frames, hot routes beside a bare grpc-gateway, and lists of many sessions. The peers run in a process of their own,
// as kaged does.
func measureAPI(ctx context.Context, w *world) (figures []Figure, err error) {
	dir := filepath.Join(w.dir, "api")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Link(filepath.Join(w.dir, "local.toml"), filepath.Join(dir, "local.toml")); err != nil {
		return nil, err
	}
	if _, err := w.withAPI(ctx, dir, func(ctx context.Context, _ *world, h *apiHost) ([]Figure, error) {
		_, err := h.session(ctx) // which fillSessions copies
		return nil, err
	}); err != nil {
		return nil, err
	}
	whole := w.run.MatchString("api")
	for _, part := range apiParts {
		if !whole && !w.run.MatchString("api/"+part.name) {
			continue
		}
		fmt.Fprintf(w.progress, "bench: api: %s\n", part.name)
		if part.prepare != nil {
			if err := part.prepare(ctx, w, dir); err != nil {
				return figures, fmt.Errorf("%s: %w", part.name, err)
			}
		}
		got, err := w.withAPI(ctx, dir, part.measure)
		if figures = append(figures, got...); err != nil {
			return figures, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return figures, nil
}

// withAPI measures with a daemon in dir that has the project.
func (w *world) withAPI(
	ctx context.Context, dir string, measure func(context.Context, *world, *apiHost) ([]Figure, error),
) ([]Figure, error) {
	d, err := start(ctx, w.kaged, dir)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	if err := d.signIn(ctx); err != nil {
		return nil, err
	}
	if err := d.load(ctx, w.project); err != nil {
		return nil, err
	}
	created, err := d.client.CreateToken(ctx, &apiv1.CreateTokenRequest{
		Name: fmt.Sprintf("bench-%d", time.Now().UnixNano()), Scope: apiv1.TokenScope_TOKEN_SCOPE_ADMIN,
	})
	if err != nil {
		return nil, err
	}
	return measure(ctx, w, &apiHost{daemon: d, token: created.GetToken()})
}

// get returns a request with the token.
func (h *apiHost) get(ctx context.Context, path string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.client.BaseURL()+path, nil)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+h.token)
		req.Header.Set("Accept", "application/json")
	}
	return req, err
}

// share is the part of the CPU time that this process, the load generator, used of all of it since begun.
type share struct {
	h         *apiHost
	own, used time.Duration
}

func (h *apiHost) beginShare() (share, error) {
	used, err := h.cpu()
	return share{h, ownCPU(), used}, err
}

func (s share) end() (float64, error) {
	used, err := s.h.cpu()
	own := ownCPU() - s.own
	return own.Seconds() / (own + used - s.used).Seconds(), err
}

// ownCPU returns the CPU time of this process: the model and the readers.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
