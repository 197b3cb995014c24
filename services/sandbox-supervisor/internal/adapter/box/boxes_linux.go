package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/egress"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/link"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/seccomp"
)

// Options is what boxes need to know.
type Options struct {
	// Log is their log.
	Log *slog.Logger
	// Name is what marks are named after: different for every supervisor that works at the same time.
	Name string
	// UID is the host's user that the processes in the boxes of root are.
	UID int
	// System are the paths of the read-only system.
	System []string
	// Dir is the folder in which boxes write down what they leave on the host, and keep what is persistent; empty for none.
	Dir string
	// Cgroups is what the cgroups of cages are named after: the same for every start of a supervisor, so that the next one
	// finds what a killed one left. Empty for no cgroups.
	Cgroups string
	// Hidden are the places of kaged's own, which no cage may see, also where they lie in the system.
	Hidden []ownpath.Path
	// TmpBytes bounds the private folders of one box.
	TmpBytes int64
	// StartTimeout is how long a box or a command may take to start, KillTimeout how long a box may take to report the end of
	// a command it was told to kill. A box that takes longer is ended.
	StartTimeout, KillTimeout time.Duration
	// SpareIdle is how long an init is kept ready for the next box after the last one was made, none at all for 0.
	SpareIdle time.Duration
	// Egress is what their networks' gates have in common.
	Egress egress.Options
	// DrainWait is how long the output of a command that is gone is waited for.
	DrainWait time.Duration
}

// Boxes implements core.Boxes.
type Boxes struct {
	opts     Options
	usernses usernses
	stubs    stubs
	launcher launcher
	spares   *spares
	later    sync.WaitGroup // of what is let go of after a box, and nobody waits for but Close
	count    atomic.Uint32  // of commands and inits, for their marks
	filters  map[seccomp.Profile]func() []byte
	probed   func() core.Report
	lacks    func() []lack
	opened   atomic.Pointer[cgroup.Cages] // what cgroups returns, once it was called
	cgroups  func() *cgroup.Cages

	mu    sync.Mutex // guards tiers
	tiers []tier     // how boxes may be possible; one when that is known
}

// New returns boxes; nothing is started and nothing is tried.
func New(opts Options) *Boxes {
	b := &Boxes{opts: opts, tiers: tiers(opts.UID), filters: map[seccomp.Profile]func() []byte{}}
	b.stubs.dir, b.stubs.log = opts.Dir, opts.Log
	b.launcher.log, b.launcher.timeout, b.launcher.leave = &logWriter{log: opts.Log}, opts.StartTimeout, b.leave
	b.spares = newSpares(opts.SpareIdle, func(k kind) (*inmate, error) { return b.launch(k, -1) }, opts.Log)
	b.cgroups = sync.OnceValue(func() *cgroup.Cages {
		c := b.openCgroups()
		b.opened.Store(c)
		return c
	})
	for _, p := range []seccomp.Profile{{}, {Relaxed: true}, {NoClone3: true}, {Relaxed: true, NoClone3: true}} {
		b.filters[p] = sync.OnceValue(func() []byte { return seccomp.Filter(p) })
	}
	b.probed = sync.OnceValue(b.probe)
	b.lacks = sync.OnceValue(findLacks)
	return b
}

// leave is what is left on the host if this process is killed.
func (b *Boxes) leave() blueprint.Leave {
	var leave blueprint.Leave
	if b.opts.Dir != "" {
		leave.Journals, _ = filepath.Abs(b.opts.Dir) // the launcher works elsewhere; without a working folder there is none for it
	}
	if c := b.opened.Load(); c != nil {
		leave.V1, leave.V2 = c.Folders()
	}
	return leave
}

// Sweep removes what killed supervisors have left on the host.
func (b *Boxes) Sweep() {
	b.stubs.sweep()
	if b.opts.Cgroups != "" {
		cgroup.SweepCages(b.opts.Cgroups)
	}
}

// Close lets go of what was kept for the next box. There must be no box left.
func (b *Boxes) Close() {
	b.spares.close()
	b.launcher.close()
	b.later.Wait()
	b.usernses.close()
	if c := b.opened.Swap(nil); c != nil {
		if err := c.Close(); err != nil {
			b.opts.Log.Warn("cgroups are left", "error", err)
		}
	}
}

// Open implements core.Boxes. The first box that is made decides how all others are.
func (b *Boxes) Open(ctx context.Context, spec core.BoxSpec, attempt func(contract.Attempt)) (core.Box, error) {
	b.mu.Lock()
	candidates := b.tiers
	b.mu.Unlock()
	var first error
	for _, t := range candidates {
		box, err := b.open(ctx, t, spec, attempt)
		if err == nil {
			b.mu.Lock()
			b.tiers = []tier{t}
			b.mu.Unlock()
			return box, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil || !otherwise[layerOf(err)] {
			return nil, err
		}
	}
	return nil, first
}

// otherwise are the layers that may be had in another way than the one that has failed.
var otherwise = map[string]bool{
	blueprint.LayerUser: true, blueprint.LayerMount: true, blueprint.LayerPID: true, blueprint.LayerNet: true, blueprint.LayerIPC: true,
	blueprint.LayerUTS: true, blueprint.LayerCgroupNS: true,
}

// open makes a box of a tier: of the spare init if there is one, and else of a new one, as also when nothing comes of the spare,
// whose root is from the time when it was started. Then it begins to ready the next spare.
func (b *Boxes) open(ctx context.Context, t tier, spec core.BoxSpec, attempt func(contract.Attempt)) (*Box, error) {
	box, spare, err := b.start(ctx, t, spec, attempt, b.spares.take)
	if err != nil && spare && ctx.Err() == nil {
		box, _, err = b.start(ctx, t, spec, attempt, func(kind) *inmate { return nil })
	}
	if err != nil {
		return nil, err
	}
	b.spares.want(kind{t, box.user})
	go box.serve()
	return box, nil
}

// start starts a box with the init that take gives it, and with a new one if that is none. It reports which it was.
func (b *Boxes) start(ctx context.Context, t tier, spec core.BoxSpec, attempt func(contract.Attempt), take func(kind) *inmate) (
	box *Box, spare bool, err error,
) {
	k := kind{t, t.userOf(spec.View.Root)}
	box = &Box{
		boxes: b, tier: t, user: k.user, id: spec.ID,
		env: environment(spec.View.Env), places: places(b.opts.System, spec.View), gone: make(chan struct{}),
	}
	box.gate = b.newGate(spec, attempt, func() bool { return box.link.Busy() })
	cgroup, err := box.limit(spec.View.Limits)
	if err != nil {
		return nil, false, err
	}
	if cgroup < 0 { // a spare is in none, and is not moved: that can take 30 ms
		box.inmate = take(k)
	}
	if spare = box.inmate != nil; !spare {
		if box.inmate, err = b.launch(k, cgroup); err != nil {
			box.unlimit()
			return nil, false, err
		}
	}
	log := b.opts.Log.With("cage", spec.ID)
	box.said.name(log)
	box.link = link.New(box.conn, link.Options{
		Log: log, Peer: "the cage's init", Inner: true, Abandon: box.kill, Ended: box.gate.Ended,
		StartTimeout: b.opts.StartTimeout, KillTimeout: b.opts.KillTimeout, DrainWait: b.opts.DrainWait,
	})
	box.started()
	crash.At(crash.CageStarted)
	if err := box.build(ctx, spec); err != nil {
		box.bury()
		return nil, spare, err
	}
	crash.At(crash.CageBuilt)
	return box, spare, nil
}

// build has the init build the box, and returns when it has.
func (box *Box) build(ctx context.Context, spec core.BoxSpec) error {
	b := box.boxes
	g := &grants{tier: box.tier, user: box.user, usernses: &b.usernses, owners: map[string]ids{}}
	defer g.close()
	held, list, err := b.stubs.hold(spec.ID, spec.View.Grants)
	if err != nil {
		return err
	}
	box.stubs = held
	home := ""
	if spec.View.Persistent {
		if b.opts.Dir == "" {
			return unavailable("state", "this kaged has no data directory to keep it in", "")
		}
		home = filepath.Join(b.opts.Dir, spec.State, "home")
		if err := g.addHome(home); err != nil {
			return err
		}
	}
	if err := g.add(list); err != nil {
		return err
	}
	switch journal, err := held.held(); { // no grant is it: the init keeps it
	case err != nil:
		return unavailable("journal", reasonOf(err), "")
	case journal >= 0:
		g.files = append(g.files, journal)
	}
	var tmp, inodes int64
	if memory := spec.View.Limits.Memory; memory > 0 && memory/2 < b.opts.TmpBytes {
		tmp = memory / 2 // what lies in the private folders is memory of the cage's, and is to leave some
		inodes = tmpInodes(tmp)
	}
	profile := seccomp.Profile{Relaxed: spec.View.Relaxed, NoClone3: !box.tier.userns}
	plan, err := json.Marshal(blueprint.Plan{
		Hidden: b.opts.Hidden, Net: box.gate.Plan(), TmpBytes: tmp, TmpInodes: inodes, Processes: box.processes,
		Binds: g.binds, Covered: inBytes(spec.View.Sockets), Filter: b.filters[profile](),
	})
	if err != nil {
		return err
	}
	// Whoever waits no longer, or too long, ends it.
	stop := context.AfterFunc(ctx, box.kill)
	defer stop()
	late := time.AfterFunc(b.opts.StartTimeout, box.kill)
	defer late.Stop()
	files := g.files
	for len(files) > 0 {
		n := min(len(files), frame.MaxFiles)
		if err := box.conn.Send(frame.Frame{Op: frame.OpFiles}, files[:n]...); err != nil {
			return box.failed(ctx, err)
		}
		files = files[n:]
	}
	if err := box.conn.Send(frame.Frame{Op: frame.OpSetUp, Plan: plan}); err != nil {
		return box.failed(ctx, err)
	}
	f, sockets, err := box.ready()
	switch {
	case err != nil:
		return box.failed(ctx, err)
	case f.Op == frame.OpFailed && f.Cause == frame.CauseFolder:
		return fault.New(fault.CagePolicyInvalid, "A path cannot be granted to a cage: %s.", f.Text)
	case f.Op == frame.OpFailed:
		return unavailable(f.Layer, f.Text, b.remedy(f.Layer, errors.New(f.Text)))
	case f.Op != frame.OpReady:
		return box.failed(ctx, fmt.Errorf("its first word was %q", f.Op))
	}
	box.gate.serve(box, sockets)
	box.disk = box.watchDisk(spec.View.Limits.Disk, spec.View.Grants, home)
	return nil
}

func inBytes(paths []string) [][]byte {
	list := make([][]byte, len(paths))
	for i, path := range paths {
		list[i] = []byte(path)
	}
	return list
}

// failed says why an init has not answered.
func (box *Box) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	return fault.Wrap(err, fault.CageUnavailable, "A cage cannot be made here: its init ended before it was ready; the log has the reason.").
		With("layer", layerInit)
}
