package bench

import (
	"context"
	"fmt"
	"slices"
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
	// rounds is the number of times that each does the task, at least 6.
	rounds int
}

// hold measures a contest: median wall time and mean CPU time of each, and the ratio within the rounds. The peer's time
// includes its start, because an agent waits for it too; kaged's time includes the call over the socket.
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
	before, err := r.cpu()
	if err != nil {
		return nil, err
	}
	var peerCPU time.Duration
	measures := []func() (time.Duration, error){func() (time.Duration, error) {
		begun := time.Now()
		_, err := r.call(ctx, "bench", c.project, c.tool, c.params)
		return time.Since(begun), err
	}}
	if c.peer.path != "" {
		measures = append(measures, func() (time.Duration, error) {
			theirs, err := c.peer.run(ctx, c.project, c.args...)
			peerCPU += theirs.cpu
			return theirs.wall, err
		})
	}
	took, err := shuffled(c.rounds, measures...)
	if err != nil {
		return nil, err
	}
	after, err := r.cpu()
	if err != nil {
		return nil, err
	}
	return c.peer.against(c.name, took, after-before, peerCPU), nil
}

// against returns the figures of a contest: wall time and CPU time. took holds kaged's times and, if the peer is
// installed, the peer's of the same rounds. The CPU times are those of all rounds, also of the first, which took leaves
// out.
func (p peer) against(name string, took [][]time.Duration, ourCPU, peerCPU time.Duration) []Figure {
	runs := float64(len(took[0]) + 1)
	wall := Figure{Name: name + "/wall", Unit: "ms", Peer: p.missing()}
	cpu := Figure{Name: name + "/cpu", Value: ms(ourCPU) / runs, Unit: "ms", Peer: p.missing()}
	if len(took) > 1 {
		wall.Peer, wall.Target = p.title, 1
		wall.Paired, wall.Low, wall.High = ratios(took[0], took[1])
		wall.Rival = ms(percentile(took[1], 50))
		cpu.Peer, cpu.Rival, cpu.Target = p.title, ms(peerCPU)/runs, 1
	}
	wall.Value, wall.Spread = ms(percentile(took[0], 50)), spread(took[0])
	return []Figure{wall, cpu}
}

// ratios returns the median of the ratios of two samples that were taken in the same rounds, at least 6, with its 95 %
// interval.
func ratios(ours, theirs []time.Duration) (median, low, high float64) {
	all := make([]float64, len(ours))
	for i := range ours {
		all[i] = float64(ours[i]) / float64(theirs[i])
	}
	slices.Sort(all)
	from, to := medianBounds(len(all))
	return all[len(all)/2], all[from], all[to]
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
