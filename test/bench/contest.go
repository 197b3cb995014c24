package bench

import (
	"context"
	"fmt"
	"time"
)

// contest is one task that a tool and a peer do repeatedly and alternately on the same tree, so that other load of the
// machine affects both.
type contest struct {
	name string
	// project is the tree; tool and params are the call.
	project, tool string
	params        any
	// peer and args are the program that does the same in the tree.
	peer peer
	args []string
	// same returns the difference between the two answers, nil if there is none.
	same func(ours string, theirs []byte) error
	// rounds is the number of times that each does the task.
	rounds int
}

// hold measures a contest: median wall time and mean CPU time of each. The peer's time includes its start, because an
// agent waits for it too; kaged's time includes the call over the socket.
func (r *runner) hold(ctx context.Context, w *world, c contest) ([]Figure, error) {
	answer, err := r.call(ctx, "bench", c.project, c.tool, c.params) // fills the caches of both
	if err != nil {
		return nil, err
	}
	if c.peer.path != "" {
		theirs, err := c.peer.run(ctx, c.project, c.args...)
		if err != nil {
			return nil, err
		}
		if err := c.same(answer, theirs.output); err != nil {
			return nil, fmt.Errorf("%s and %s differ in %s: %w", c.tool, c.peer.title, c.name, err)
		}
	} else {
		fmt.Fprintf(w.progress, "bench: %s: %s\n", c.name, c.peer.missing())
	}
	var ourWall, peerWall []time.Duration
	var peerCPU time.Duration
	before, err := r.cpu()
	if err != nil {
		return nil, err
	}
	for range c.rounds {
		begun := time.Now()
		if _, err := r.call(ctx, "bench", c.project, c.tool, c.params); err != nil {
			return nil, err
		}
		ourWall = append(ourWall, time.Since(begun))
		if c.peer.path == "" {
			continue
		}
		theirs, err := c.peer.run(ctx, c.project, c.args...)
		if err != nil {
			return nil, err
		}
		peerWall = append(peerWall, theirs.wall)
		peerCPU += theirs.cpu
	}
	after, err := r.cpu()
	if err != nil {
		return nil, err
	}
	wall := Figure{
		Name: c.name + "/wall", Value: ms(percentile(ourWall, 50)), Spread: spread(ourWall), Unit: "ms",
		Peer: c.peer.missing(),
	}
	cpu := Figure{Name: c.name + "/cpu", Value: ms(after-before) / float64(c.rounds), Unit: "ms", Peer: c.peer.missing()}
	if c.peer.path != "" {
		wall.Peer, wall.Rival, wall.Target = c.peer.title, ms(percentile(peerWall, 50)), 1
		cpu.Peer, cpu.Rival, cpu.Target = c.peer.title, ms(peerCPU)/float64(c.rounds), 1
	}
	return []Figure{wall, cpu}, nil
}

// holdAll measures contests in their order.
func (r *runner) holdAll(ctx context.Context, w *world, contests []contest) ([]Figure, error) {
	var figures []Figure
	for _, c := range contests {
		got, err := r.hold(ctx, w, c)
		if err != nil {
			return figures, err
		}
		figures = append(figures, got...)
	}
	return figures, nil
}

// withRunner runs a measurement against a tool-runner.
func (w *world) withRunner(ctx context.Context, use func(*runner) ([]Figure, error)) ([]Figure, error) {
	r, err := w.startRunner(ctx)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	return use(r)
}
