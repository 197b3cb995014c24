package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// The load of routes: 64 connections ask again and again, kaged and the peer in turns.
const (
	apiConnections = 64
	apiRounds      = 3
	apiRound       = time.Second
)

// measureRoutes measures hot routes at 64 connections beside a grpc-gateway that answers one of them with a fixed
// message, without sign-in, limits, log or database.
func measureRoutes(ctx context.Context, w *world, h *apiHost) ([]Figure, error) {
	session, err := h.session(ctx)
	if err != nil {
		return nil, err
	}
	w.model.set(plan{deltas: 3})
	if _, err := h.follow(ctx, session, "go"); err != nil {
		return nil, err
	}
	fixed, err := h.client.GetSession(ctx, &apiv1.GetSessionRequest{Id: session})
	if err != nil {
		return nil, err
	}
	answer, err := protojson.Marshal(fixed)
	if err != nil {
		return nil, err
	}
	bare, err := startPeer(ctx, "gateway", string(answer))
	if err != nil {
		return nil, err
	}
	defer bare.end()
	path := "/api/v1/sessions/" + session
	peer, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+bare.HTTP+path, nil)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for _, route := range []struct{ name, path string }{
		{"me", "/api/v1/me"},
		{"session", path},
		{"messages", path + "/messages?limit=50"},
		{"sessions", "/api/v1/sessions?limit=50"},
		{"projects", "/api/v1/projects"},
	} {
		req, err := h.get(ctx, route.path)
		if err != nil {
			return figures, err
		}
		got, err := h.beside(ctx, route.name, req, peer)
		if figures = append(figures, got...); err != nil {
			return figures, fmt.Errorf("%s: %w", route.name, err)
		}
	}
	return figures, nil
}

// beside loads a route and the peer in turns.
func (h *apiHost) beside(ctx context.Context, name string, route, peer *http.Request) ([]Figure, error) {
	var kaged, other load
	var generator float64
	for range apiRounds {
		begun, err := h.beginShare()
		if err != nil {
			return nil, err
		}
		if err := kaged.run(ctx, route); err != nil {
			return nil, err
		}
		part, err := begun.end()
		if err != nil {
			return nil, err
		}
		generator += part / apiRounds
		if err := other.run(ctx, peer); err != nil {
			return nil, fmt.Errorf("the bare gateway: %w", err)
		}
	}
	const title = "bare grpc-gateway"
	return []Figure{
		{
			Name: "api/routes/" + name + "/each", Value: kaged.each(), Unit: "us", Peer: title, Rival: other.each(),
			Note: fmt.Sprintf("%.0f a second at %d connections, bare %.0f; generator %.0f %% of the CPU time",
				1e6/kaged.each(), apiConnections, 1e6/other.each(), 100*generator),
		},
		{
			Name: "api/routes/" + name + "/p99", Unit: "ms", Peer: title,
			Value: ms(percentile(kaged.took, 99)), Rival: ms(percentile(other.took, 99)),
		},
	}, nil
}

// load is the answers of many connections.
type load struct {
	mu   sync.Mutex
	took []time.Duration
	wall time.Duration
}

// each returns the time between two answers, in microseconds.
func (l *load) each() float64 { return l.wall.Seconds() * 1e6 / float64(len(l.took)) }

// run asks at all connections for a round.
func (l *load) run(ctx context.Context, req *http.Request) error {
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: apiConnections, MaxConnsPerHost: apiConnections, DisableCompression: true,
	}}
	defer client.CloseIdleConnections()
	var group errgroup.Group
	begun := time.Now()
	for range apiConnections {
		group.Go(func() error {
			var took []time.Duration
			for time.Since(begun) < apiRound {
				asked := time.Now()
				resp, err := client.Do(req.Clone(ctx))
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					return fmt.Errorf("answered with %s: %w", resp.Status, err)
				}
				took = append(took, time.Since(asked))
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.took = append(l.took, took...)
			return nil
		})
	}
	err := group.Wait()
	l.wall += time.Since(begun)
	return err
}
