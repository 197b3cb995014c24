package box

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/link"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// Box implements core.Box.
type Box struct {
	*inmate
	boxes *Boxes
	tier  tier
	user  ids // the cage's, on the host
	id    string
	env   map[string]string
	// places are where something can be in it.
	places []string
	link   *link.Link
	stubs  *heldStubs // nil for none
	gate   *gate

	cgroup     *cgroup.Cage // nil for none
	dog        *watchdog    // nil for none
	disk       *diskWatch   // nil for none
	processes  int64        // the bound of processes that the init sets, 0 for none
	bestEffort []string

	killed sync.Once
	late   *time.Timer  // ends the connection to an init that does not end; set when killed is done
	ended  atomic.Int32 // the core.Reason for which it was ended from here
	closed atomic.Bool  // Close was called
	gone   chan struct{}
	why    contract.Reason // set before gone is closed
}

// serve reads what the init says until it is gone, and everything in the box with it.
func (b *Box) serve() {
	b.link.Serve()
	if !b.closed.Load() { // before anybody learns of it, and closes it
		b.why = contract.ReasonLost
		if ended := contract.Reason(b.ended.Load()); ended != contract.ReasonNone {
			b.why = ended
		}
	}
	b.bury()
	close(b.gone)
}

// kill kills the init. If it does not end in time, it is served no longer.
func (b *Box) kill() {
	b.inmate.kill()
	b.killed.Do(func() { b.late = time.AfterFunc(b.boxes.opts.KillTimeout, func() { b.conn.Close() }) })
}

// bury kills what is in the box and removes what it has on the host. What cannot be killed is not waited for; stubs that it might need stand
// until a box ends after it has.
func (b *Box) bury() {
	b.kill()
	b.late.Stop()
	ended := b.reap(b.boxes.opts.KillTimeout)
	b.link.Lose(nil)
	b.gate.close()
	crash.At(crash.CageEmpty)
	if !ended {
		b.boxes.opts.Log.Error("processes of a cage are left that cannot be killed", "cage", b.id, "init", b.process.pid)
		b.process.giveUp()
	}
	b.unlimit()
	switch {
	case b.stubs == nil:
	case ended:
		b.stubs.release()
	default:
		b.stubs.abandon()
	}
}

// Spawn implements core.Spawner.
func (b *Box) Spawn(_ context.Context, spec core.Spec) (core.Process, error) {
	spec.Env = b.merge(spec.Env)
	id := b.boxes.count.Add(1)
	mark := proc.Mark(b.boxes.opts.Name, id)
	place, err := b.place(id, mark)
	if err != nil {
		return nil, err
	}
	p, err := b.link.Spawn(spec, uint64(id), mark, place)
	if errors.Is(err, link.ErrOver) {
		return nil, fault.New(fault.CageUnavailable, "The cage has ended.").With("cage_id", b.id)
	}
	b.gate.Began()
	return p, err
}

// Connect implements core.Spawner.
func (b *Box) Connect(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	conn, err := b.link.Connect(ctx, uint64(b.boxes.count.Add(1)), port)
	if errors.Is(err, link.ErrOver) {
		return nil, fault.New(fault.CageUnavailable, "The cage has ended.").With("cage_id", b.id)
	}
	return conn, err
}

// environment returns the variables that a cage sets, whatever its commands bring.
func environment(view map[string]string) map[string]string {
	env := map[string]string{
		"HOME": blueprint.Home, "USER": blueprint.User, "LOGNAME": blueprint.User, "TMPDIR": "/tmp",
	}
	maps.Copy(env, view)
	return env
}

// merge returns an environment with the cage's own variables in it, and of PATH what can be there.
func (b *Box) merge(env []string) []string {
	merged := make([]string, 0, len(env)+len(b.env))
	for _, e := range env {
		key, value, _ := strings.Cut(e, "=")
		if _, own := b.env[key]; own {
			continue
		}
		if key == "PATH" {
			e = "PATH=" + searched(value, b.places)
		}
		merged = append(merged, e)
	}
	for key, value := range b.env {
		merged = append(merged, key+"="+value)
	}
	slices.Sort(merged)
	return merged
}

// Tier implements core.Box, as do the methods below.
func (b *Box) Tier() string { return b.tier.name() }

// BestEffort implements core.Box.
func (b *Box) BestEffort() []string { return b.bestEffort }

// Gone implements core.Box.
func (b *Box) Gone() <-chan struct{} { return b.gone }

// Why implements core.Box.
func (b *Box) Why() contract.Reason { return b.why }

// Terminate implements core.Box.
func (b *Box) Terminate() { b.link.Terminate() }

// Close implements core.Box.
func (b *Box) Close() {
	b.closed.Store(true)
	b.kill()
	<-b.gone
}

// Usage implements core.Box.
func (b *Box) Usage() (core.Usage, int) {
	return b.usage()
}

var _ core.Box = (*Box)(nil)
