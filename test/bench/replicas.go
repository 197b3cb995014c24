package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// The fixed work of a number of replicas: sessions that stream, and sessions that make steps with a tool call each.
const (
	replicaSessions = 40
	replicaRounds   = 2
	replicaSteps    = 10
)

// unitCosts are the CPU times of one delta and of one step.
type unitCosts struct{ delta, step usage }

// measureReplicas measures the CPU time of a delta and of a step with 1, 2 and 4 replicas of gateway, session-manager,
// harness and issue, in turns. It compares the smaller values, which other work on the machine disturbed less, with
// those of one replica. Wall time says nothing on a machine with fewer processors than processes.
func measureReplicas(ctx context.Context, w *world) ([]Figure, error) {
	counts := []int{1, 2, 4}
	got := map[int][]unitCosts{}
	for range replicaRounds {
		for _, n := range counts {
			c, err := w.replicaCosts(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("%d replicas: %w", n, err)
			}
			got[n] = append(got[n], c)
		}
	}
	var figures []Figure
	for _, n := range counts {
		for _, part := range []struct {
			name string
			of   func(unitCosts) time.Duration
			aim  bool
		}{
			{"cpu-per-delta", func(c unitCosts) time.Duration { return c.delta.services }, true},
			{"cpu-per-step", func(c unitCosts) time.Duration { return c.step.services }, true},
			{"stores-cpu-per-delta", func(c unitCosts) time.Duration { return c.delta.stores }, false},
			{"stores-cpu-per-step", func(c unitCosts) time.Duration { return c.step.stores }, false},
		} {
			one, _ := least(got[1], part.of)
			value, all := least(got[n], part.of)
			f := Figure{
				Name: fmt.Sprintf("replicas/%d/%s", n, part.name), Value: float64(value.Microseconds()), Unit: "µs",
				Spread: spread(all),
			}
			if n > 1 && part.aim {
				f.Peer, f.Rival, f.Target = "one replica", float64(one.Microseconds()), 1.15
			}
			figures = append(figures, f)
		}
	}
	return figures, nil
}

// least returns the smallest value, and all of them.
func least(list []unitCosts, of func(unitCosts) time.Duration) (time.Duration, []time.Duration) {
	var all []time.Duration
	for _, c := range list {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return all[0], all
}

// replicaCosts does the fixed work on a fresh deployment.
func (w *world) replicaCosts(ctx context.Context, replicas int) (c unitCosts, err error) {
	d, err := w.deploy(ctx, replicas)
	if err != nil {
		return c, err
	}
	defer d.end()
	w.model.set(plan{deltas: 10})
	if _, _, err := d.stream(ctx, replicaSessions); err != nil { // fills caches
		return c, err
	}
	for _, work := range []struct {
		plan  plan
		units int
		out   *usage
	}{
		{plan{deltas: deltas, interval: pace}, replicaSessions * deltas, &c.delta},
		{
			plan{tool: "file.read", input: `{"path":"small.txt","limit":ROUND}`, rounds: replicaSteps, deltas: 1},
			replicaSessions * replicaSteps, &c.step,
		},
	} {
		w.model.set(work.plan)
		before, err := d.used()
		if err != nil {
			return c, err
		}
		if _, _, err := d.stream(ctx, replicaSessions); err != nil {
			return c, err
		}
		after, err := d.used()
		if err != nil {
			return c, err
		}
		used := after.since(before)
		n := time.Duration(work.units)
		*work.out = usage{used.services / n, used.stores / n}
	}
	return c, nil
}
