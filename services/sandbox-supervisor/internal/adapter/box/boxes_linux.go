package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/egress"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/link"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
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
	// Hidden are paths that no cage may see, also where they lie in the system.
	Hidden []string
	// TmpBytes bounds the private folders of one box.
	TmpBytes int64
	// StartTimeout is how long a box or a command may take to start, KillTimeout how long a box may take to report the end of
	// a command it was told to kill. A box that takes longer is ended.
	StartTimeout, KillTimeout time.Duration
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
	count    atomic.Uint32 // of commands and inits, for their marks
	filters  map[seccomp.Profile]func() []byte
	probed   func() core.Report
	opened   atomic.Pointer[cgroup.Cages] // what cgroups returns, once it was called
	cgroups  func() *cgroup.Cages

	mu    sync.Mutex // guards tiers
	tiers []tier     // how boxes may be possible; one when that is known
}

// New returns boxes; nothing is started and nothing is tried.
func New(opts Options) *Boxes {
	b := &Boxes{opts: opts, tiers: tiers(opts.UID), filters: map[seccomp.Profile]func() []byte{}}
	b.stubs.dir, b.stubs.log = opts.Dir, opts.Log
	b.cgroups = sync.OnceValue(func() *cgroup.Cages {
		c := b.openCgroups()
		b.opened.Store(c)
		return c
	})
	for _, p := range []seccomp.Profile{{}, {Relaxed: true}, {NoClone3: true}, {Relaxed: true, NoClone3: true}} {
		b.filters[p] = sync.OnceValue(func() []byte { return seccomp.Filter(p) })
	}
	b.probed = sync.OnceValue(b.probe)
	return b
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
	b.usernses.close()
	if c := b.opened.Swap(nil); c != nil {
		if err := c.Close(); err != nil {
			b.opts.Log.Warn("cgroups are left", "error", err)
		}
	}
}

// Open implements core.Boxes. The first box that is made decides how all others are.
func (b *Boxes) Open(ctx context.Context, spec core.BoxSpec, attempt func(core.Attempt)) (core.Box, error) {
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

// open makes a box of a tier.
func (b *Boxes) open(ctx context.Context, t tier, spec core.BoxSpec, attempt func(core.Attempt)) (*Box, error) {
	program, err := image()
	if err != nil {
		return nil, err
	}
	box, err := b.start(t, spec, program, attempt)
	if err != nil {
		return nil, err
	}
	crash.At(crash.CageStarted)
	if err := box.build(ctx, spec); err != nil {
		box.kill()
		box.reap()
		box.leave()
		return nil, err
	}
	crash.At(crash.CageBuilt)
	go box.serve()
	return box, nil
}

// namespaces are what every cage has of its own, besides its user namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// The capabilities that the init needs while it builds: without and with a user namespace of its own, in which it also bounds
// others.
var (
	rightsWithout = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SETPCAP}
	rights        = append([]uintptr{unix.CAP_SYS_RESOURCE}, rightsWithout...)
)

// holdArgument makes the init do nothing; see makeUserns.
const holdArgument = "hold"

// start starts an init in its namespaces.
func (b *Boxes) start(t tier, spec core.BoxSpec, program *os.File, attempt func(core.Attempt)) (*Box, error) {
	conn, theirs, err := frame.Pair()
	if err != nil {
		return nil, unavailable(layerInit, err.Error(), "")
	}
	defer theirs.Close()
	conn.Patience = b.opts.KillTimeout
	box := &Box{
		boxes: b, tier: t, user: t.userOf(spec.View.Root), id: spec.ID, gate: b.newGate(spec, attempt),
		env: environment(spec.View.Env), conn: conn, gone: make(chan struct{}),
	}
	box.link = link.New(conn, link.Options{
		Log: b.opts.Log.With("cage", spec.ID), Peer: "the cage's init", Inner: true, Abandon: box.kill,
		StartTimeout: b.opts.StartTimeout, KillTimeout: b.opts.KillTimeout, DrainWait: b.opts.DrainWait,
	})
	box.cmd = &exec.Cmd{
		Path: "/proc/self/fd/" + strconv.Itoa(int(program.Fd())), Args: []string{"kaged-cage"},
		Env: []string{"GOMAXPROCS=2", "GOTRACEBACK=single"}, Dir: "/",
		Stderr: &logWriter{log: b.opts.Log.With("cage", spec.ID)}, ExtraFiles: []*os.File{theirs}, WaitDelay: time.Second,
		SysProcAttr: box.attributes(),
	}
	if err := box.limit(spec.View.Limits); err != nil {
		conn.Close()
		return nil, err
	}
	if err := box.cmd.Start(); err != nil {
		conn.Close()
		box.unlimit()
		if !t.userns {
			return nil, unavailable(blueprint.LayerMount, link.Reason(err), "")
		}
		return nil, unavailable(blueprint.LayerUser, link.Reason(err), userFix(err))
	}
	box.started()
	return box, nil
}

// attributes are those of the init's process.
func (box *Box) attributes() *syscall.SysProcAttr {
	if !box.tier.userns {
		return &syscall.SysProcAttr{
			Setsid: true, Cloneflags: namespaces, AmbientCaps: rightsWithout,
			Credential: &syscall.Credential{Uid: uint32(box.user.uid), Gid: uint32(box.user.gid)},
		}
	}
	return &syscall.SysProcAttr{
		Setsid: true, Cloneflags: unix.CLONE_NEWUSER | namespaces, AmbientCaps: rights,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: blueprint.UID, HostID: box.user.uid, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: blueprint.GID, HostID: box.user.gid, Size: 1}},
		GidMappingsEnableSetgroups: box.tier.groups,
		Credential:                 &syscall.Credential{Uid: blueprint.UID, Gid: blueprint.GID, NoSetGroups: !box.tier.groups},
	}
}

// userFix says how user namespaces are made to work.
func userFix(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return "sysctl -w user.max_user_namespaces=15000"
	case errors.Is(err, unix.EPERM):
		return "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1, or in a container a seccomp profile that allows unshare and clone"
	}
	return ""
}

// initFix says how what an init could not do is made possible.
func initFix(f frame.Frame) string {
	if !strings.Contains(f.Text, unix.EPERM.Error()) && !strings.Contains(f.Text, unix.EACCES.Error()) {
		return ""
	}
	switch f.Layer {
	case blueprint.LayerPID:
		return procFix
	case blueprint.LayerMount, blueprint.LayerNet, blueprint.LayerUser:
		return "let kaged use what its user namespaces give: on Ubuntu an AppArmor profile for it with \"userns,\", or " +
			"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that allows mounts"
	}
	return ""
}

// procFix gives the processes of a cage a /proc of their own where a container's is masked.
const procFix = "in a container: an unmasked /proc (procMount: Unmasked with hostUsers: false), or CAP_SYS_ADMIN"

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
	inside := ids{blueprint.UID, blueprint.GID}
	if !box.tier.userns {
		inside = box.user
	}
	tmp := b.opts.TmpBytes
	if memory := spec.View.Limits.Memory; memory > 0 {
		tmp = min(tmp, memory/2) // what lies in them is memory of the cage's, and is to leave some
	}
	profile := seccomp.Profile{Relaxed: spec.View.Relaxed, NoClone3: !box.tier.userns}
	plan, err := json.Marshal(blueprint.Plan{
		Mark: proc.Mark(b.opts.Name, b.count.Add(1)), Userns: box.tier.userns, GID: inside.gid,
		System: b.opts.System, Hidden: b.opts.Hidden, Etc: etc, Texts: texts(inside), Net: box.gate.Plan(),
		TmpBytes: tmp, TmpInodes: max(1024, tmp/4096), Processes: box.processes,
		Binds: g.binds, Filter: b.filters[profile](),
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
		return unavailable(f.Layer, f.Text, initFix(f))
	case f.Op != frame.OpReady:
		return box.failed(ctx, fmt.Errorf("its first word was %q", f.Op))
	}
	box.gate.serve(box, sockets)
	box.disk = box.watchDisk(spec.View.Limits.Disk, spec.View.Grants, home)
	return nil
}

// failed says why an init has not answered.
func (box *Box) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	return fault.Wrap(err, fault.CageUnavailable, "A cage cannot be made here: its init ended before it was ready; the log has the reason.").
		With("layer", layerInit)
}
