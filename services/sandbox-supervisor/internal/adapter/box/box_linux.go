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

// Box implements core.Box. Its goroutine is serve, which ends with the cage init.
type Box struct {
	*cageInit
	boxes *Boxes
	tier  tier
	user  ids // the cage's user, on the host
	id    string
	env   map[string]string
	// places are the paths at and below which files can exist in the cage.
	places []string
	link   *link.Link
	stubs  *heldStubs // nil if absent
	gate   *gate

	cgroup     *cgroup.Cage // nil if absent
	dog        *watchdog    // nil if absent
	disk       *diskWatch   // nil if absent
	processes  int64        // process limit set by the init, 0 for no limit
	bestEffort []string

	killed sync.Once
	late   *time.Timer  // closes conn if the init outlives its kill; set when killed is done
	ended  atomic.Int32 // the limit (a contract.Reason) for which this process ended the cage
	closed atomic.Bool  // Close was called
	gone   chan struct{}
	why    contract.Reason // set before gone is closed
}

// serve reads the init's frames until the init and every process in the cage have ended.
func (b *Box) serve() {
	b.link.Serve()
	if !b.closed.Load() { // before bury reports the end, upon which the core calls Close
		b.why = contract.ReasonLost
		if ended := contract.Reason(b.ended.Load()); ended != contract.ReasonNone {
			b.why = ended
		}
	}
	b.bury()
	close(b.gone)
}

// kill kills the init. The connection is closed after KillTimeout if the init has not ended.
func (b *Box) kill() {
	b.cageInit.kill()
	b.killed.Do(func() { b.late = time.AfterFunc(b.boxes.opts.KillTimeout, func() { b.conn.Close() }) })
}

// bury kills the processes in the cage and removes its traces on the host. It waits KillTimeout at most. If a process
// cannot be killed, the stubs it may rely on stay until a later sweep finds the init gone.
func (b *Box) bury() {
	b.kill()
	b.late.Stop()
	ended := b.reap(b.boxes.opts.KillTimeout)
	b.link.Lose(nil)
	b.gate.close()
	crash.At(crash.CageEmpty)
	if !ended {
		b.boxes.opts.Log.Error("cage processes cannot be killed", "cage", b.id, "init", b.process.pid)
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

// environment returns the variables that a cage sets, which override those of a command.
func environment(view map[string]string) map[string]string {
	env := map[string]string{
		"HOME": blueprint.Home, "USER": blueprint.User, "LOGNAME": blueprint.User, "TMPDIR": "/tmp",
	}
	maps.Copy(env, view)
	return env
}

// merge returns env with the cage's variables, and with a PATH reduced to folders that can exist in the cage.
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
