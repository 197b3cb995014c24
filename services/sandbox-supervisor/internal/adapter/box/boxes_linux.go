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

// Options configures Boxes.
type Options struct {
	// Log receives the log lines of all cages.
	Log *slog.Logger
	// Name is the prefix of process marks; it differs between supervisors that run at the same time.
	Name string
	// UID is the host's user of cage processes if the supervisor runs as root.
	UID int
	// System are the paths of the read-only system.
	System []string
	// Dir is the folder of the stub journals and of persistent homes; may be empty.
	Dir string
	// Cgroups is the name of the cages' cgroups. It is the same at every start of a supervisor, so that the next start
	// finds the cgroups of a killed one. Empty disables cgroups.
	Cgroups string
	// Hidden are kaged's own paths, which are covered in every cage even below a system path.
	Hidden []ownpath.Path
	// TmpBytes limits the private folders of one cage.
	TmpBytes int64
	// StartTimeout is the time limit of the start of a cage or a command; KillTimeout is the time limit for the report of
	// a killed command's end. A cage that exceeds either is ended.
	StartTimeout, KillTimeout time.Duration
	// SpareIdle is how long a spare is kept after the last cage was made; 0 disables spares.
	SpareIdle time.Duration
	// Egress holds the options shared by the network gates of all cages.
	Egress egress.Options
	// DrainWait is the maximum wait for remaining output after a command's end.
	DrainWait time.Duration
}

// Boxes implements core.Boxes.
type Boxes struct {
	opts     Options
	usernses usernses
	stubs    stubs
	launcher launcher
	spares   *spares
	later    sync.WaitGroup // of egress connections that close after their cage's end; Close waits for them
	count    atomic.Uint32  // of commands and inits, part of their marks
	filters  map[seccomp.Profile]func() []byte
	probed   func() core.Report
	lacks    func() []lack
	opened   atomic.Pointer[cgroup.Cages] // the result of cgroups, once it was called
	cgroups  func() *cgroup.Cages

	mu    sync.Mutex // guards tiers
	tiers []tier     // candidate tiers, the best first; one after the first cage
}

// New returns Boxes without starting a process or probing the kernel.
func New(opts Options) *Boxes {
	b := &Boxes{opts: opts, tiers: tiers(opts.UID), filters: map[seccomp.Profile]func() []byte{}}
	b.stubs.dir, b.stubs.log = opts.Dir, opts.Log
	b.launcher.log, b.launcher.timeout, b.launcher.cleanup = &logWriter{log: opts.Log}, opts.StartTimeout, b.cleanup
	b.spares = newSpares(opts.SpareIdle, func(k kind) (*cageInit, error) { return b.launch(k, -1) }, opts.Log)
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

// cleanup returns the paths that the launcher removes if this process is killed.
func (b *Boxes) cleanup() blueprint.Cleanup {
	var cleanup blueprint.Cleanup
	if b.opts.Dir != "" {
		cleanup.Journals, _ = filepath.Abs(b.opts.Dir) // absolute: the launcher's working folder is /
	}
	if c := b.opened.Load(); c != nil {
		cleanup.V1, cleanup.V2 = c.Folders()
	}
	return cleanup
}

// Sweep removes the traces of killed supervisors from the host.
func (b *Boxes) Sweep() {
	b.stubs.sweep()
	if b.opts.Cgroups != "" {
		cgroup.SweepCages(b.opts.Cgroups)
	}
}

// Close ends the spare and the launcher, and closes namespaces and cgroups. All cages must have ended.
func (b *Boxes) Close() {
	b.spares.close()
	b.launcher.close()
	b.later.Wait()
	b.usernses.close()
	if c := b.opened.Swap(nil); c != nil {
		if err := c.Close(); err != nil {
			b.opts.Log.Warn("cgroups could not be removed", "error", err)
		}
	}
}

// Open implements core.Boxes. The tier of the first cage becomes the tier of all others.
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

// otherwise lists the layers that another tier may not need: their failure leads to the next tier.
var otherwise = map[string]bool{
	blueprint.LayerUser: true, blueprint.LayerMount: true, blueprint.LayerPID: true, blueprint.LayerNet: true,
	blueprint.LayerIPC: true, blueprint.LayerUTS: true, blueprint.LayerCgroupNS: true,
}

// open makes a cage of a tier from the spare init, if there is a fresh one. If that fails, it tries once more with a
// new init, because the spare's root may predate a change on the host. It schedules the next spare.
func (b *Boxes) open(ctx context.Context, t tier, spec core.BoxSpec, attempt func(contract.Attempt)) (*Box, error) {
	box, spare, err := b.start(ctx, t, spec, attempt, b.spares.take)
	if err != nil && spare && ctx.Err() == nil {
		box, _, err = b.start(ctx, t, spec, attempt, func(kind) *cageInit { return nil })
	}
	if err != nil {
		return nil, err
	}
	b.spares.want(kind{t, box.user})
	go box.serve()
	return box, nil
}

// start starts a cage with the init returned by take, or with a new init if take returns nil. spare reports the former.
func (b *Boxes) start(
	ctx context.Context, t tier, spec core.BoxSpec, attempt func(contract.Attempt), take func(kind) *cageInit,
) (box *Box, spare bool, err error) {
	k := kind{t, t.userOf(spec.View.Root)}
	box = &Box{
		boxes: b, tier: t, user: k.user, id: spec.ID,
		env: environment(spec.View.Env), places: places(b.opts.System, spec.View), gone: make(chan struct{}),
	}
	paths, err := box.open(spec)
	if err != nil {
		box.forgo()
		return nil, false, err
	}
	defer paths.close()
	if spec.Checked != nil {
		spec.Checked()
	}
	box.gate = b.newGate(spec, attempt, func() bool { return box.link.Busy() })
	cgroup, err := box.limit(spec.View.Limits)
	if err != nil {
		box.forgo()
		return nil, false, err
	}
	if cgroup < 0 { // no spare: moving one into the cgroup can take 30 ms
		box.cageInit = take(k)
	}
	if spare = box.cageInit != nil; !spare {
		if box.cageInit, err = b.launch(k, cgroup); err != nil {
			box.unlimit()
			box.forgo()
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
	if err := box.build(ctx, spec, paths); err != nil {
		box.bury()
		return nil, spare, err
	}
	crash.At(crash.CageBuilt)
	return box, spare, nil
}

// paths are the open paths of a cage, for its init.
type paths struct {
	*grants
	home string // the persistent home
}

// open opens the paths of the policy and holds the stubs of missing ones.
func (box *Box) open(spec core.BoxSpec) (_ paths, err error) {
	b := box.boxes
	g := paths{grants: &grants{tier: box.tier, user: box.user, usernses: &b.usernses, owners: map[string]ids{}}}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	held, list, err := b.stubs.hold(spec.ID, spec.View.Grants)
	if err != nil {
		return g, err
	}
	box.stubs = held
	if spec.View.Persistent {
		if b.opts.Dir == "" {
			return g, unavailable("state", "persistent state needs a data directory", "")
		}
		g.home = filepath.Join(b.opts.Dir, spec.State, "home")
		if err := g.addHome(g.home); err != nil {
			return g, err
		}
	}
	if err := g.add(list); err != nil {
		return g, err
	}
	switch journal, err := held.held(); { // an extra descriptor after the grants': the init keeps the journal locked
	case err != nil:
		return g, unavailable("journal", reasonOf(err), "")
	case journal >= 0:
		g.files = append(g.files, journal)
	}
	return g, nil
}

// forgo closes the files of a cage that has no process.
func (box *Box) forgo() {
	if box.stubs != nil {
		box.stubs.release()
	}
}

// build sends the plan to the init and returns when the init has built the cage.
func (box *Box) build(ctx context.Context, spec core.BoxSpec, g paths) error {
	b := box.boxes
	var tmp, inodes int64
	if memory := spec.View.Limits.Memory; memory > 0 && memory/2 < b.opts.TmpBytes {
		tmp = memory / 2 // the private folders count as the cage's memory; half remains for its processes
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
	// A cancelled call and a late init both end by killing the init.
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
		return box.failed(ctx, fmt.Errorf("unexpected answer %q", f.Op))
	}
	box.gate.serve(box, sockets)
	box.disk = box.watchDisk(spec.View.Limits.Disk, spec.View.Grants, g.home)
	return nil
}

func inBytes(paths []string) [][]byte {
	list := make([][]byte, len(paths))
	for i, path := range paths {
		list[i] = []byte(path)
	}
	return list
}

// failed returns the error of an init that has not answered.
func (box *Box) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	return fault.Wrap(err, fault.CageUnavailable,
		"A cage cannot be made here: its init ended before it was ready; the log has the reason.").
		With("layer", layerInit)
}
