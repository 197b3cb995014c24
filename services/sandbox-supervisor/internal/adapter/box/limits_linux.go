package box

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/link"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// The names of the limits as layers of a cage.
const (
	layerMemory = "limits.memory"
	layerPIDs   = "limits.pids"
	layerCPU    = "limits.cpu"
	layerDisk   = "limits.disk"
)

// Fixes for a kaged without cgroups: delegate for machines that systemd runs, outer for all others, such as containers.
const (
	delegate = "start kaged under systemd: " +
		"systemd-run --user --scope -p Delegate=yes kaged up, or a service with Delegate=yes"
	outer = "set memory and CPU limits of the container or service that kaged runs in, " +
		"such as mem_limit and cpus of compose: they hold for all cages together"
)

// limitFix returns the fix for a kaged without cgroups. booted is a folder that exists only under systemd.
func limitFix(booted string) string {
	if _, err := os.Stat(booted); err != nil {
		return outer
	}
	return delegate
}

const systemdBooted = "/run/systemd/system" // see sd_booted(3)

// openCgroups returns the cgroups for cages, nil if absent.
func (b *Boxes) openCgroups() *cgroup.Cages {
	if b.opts.Cgroups == "" {
		return nil
	}
	family := proc.Mark(b.opts.Name, 0)
	ours := func(pid int) bool { return proc.Family(proc.MarkOf(pid), family) }
	c, err := cgroup.OpenCages(b.opts.Cgroups, b.opts.Name, ours)
	if err != nil {
		b.opts.Log.Info("cages have no cgroups", "reason", err)
		return nil
	}
	if err := tryCgroup(c); err != nil {
		c.WithoutV2(cgroup.Cause(err))
	}
	return c
}

// tryCgroup starts a process in a trial cgroup: some seccomp filters refuse clone3.
func tryCgroup(c *cgroup.Cages) error {
	fd, remove, ok := c.Trial()
	if !ok {
		return nil
	}
	defer remove()
	program, err := image()
	if err != nil {
		return nil // no cage can be made at all
	}
	return (&exec.Cmd{
		Path: "/proc/self/fd/" + strconv.Itoa(int(program.Fd())), Args: []string{"kaged-cage", blueprint.ArgHold},
		Env: []string{}, Dir: "/", SysProcAttr: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd},
	}).Run()
}

// support returns the cgroup version that enforces a limit (memory, pids or cpu) of cages with user namespaces or
// without. If by is empty, why has the reason.
func (b *Boxes) support(userns bool, controller string) (by, why string) {
	c := b.cgroups()
	if c == nil {
		return "", "kaged has no cgroups"
	}
	by, why = c.Support(controller, userns)
	if by == "" && why == "" {
		why = "there is no such controller"
	}
	return by, why
}

// limit prepares the limits of a cage before its init starts. It returns the descriptor of the cgroup to start the init
// in, -1 if absent, and fails with cage_unavailable naming the limit.
func (b *Box) limit(limits dsl.Limits) (cgroupFD int, err error) {
	held := cgroup.Limits{}
	if limits.CPU > 0 {
		by, why := b.boxes.support(b.tier.userns, "cpu")
		if by == "" {
			return -1, unavailable(layerCPU, why, delegate)
		}
		held.CPU = limits.CPU
	}
	watched := watchedLimits{}
	if limits.Memory > 0 {
		if by, why := b.boxes.support(b.tier.userns, "memory"); by != "" {
			held.Memory = limits.Memory
		} else {
			watched.memory = limits.Memory
			b.bestEffort = append(b.bestEffort,
				"limits.memory is enforced by polling ten times a second and killing above the limit ("+why+").")
		}
	}
	if limits.PIDs > 0 {
		by, why := b.boxes.support(b.tier.userns, "pids")
		switch {
		case by != "":
			held.PIDs = limits.PIDs
		case b.tier.userns:
			b.processes = limits.PIDs + initThreads
			watched.pids = limits.PIDs
		default:
			return -1, unavailable(layerPIDs, why, delegate)
		}
	}
	if watched != (watchedLimits{}) {
		b.dog = newWatchdog(b, watched)
	}
	if held == (cgroup.Limits{}) {
		return -1, nil
	}
	c, err := b.boxes.cgroups().Make(b.id, held, b.user.uid, b.tier.userns)
	if err != nil {
		return -1, unavailable("limits", err.Error(), "")
	}
	b.cgroup = c
	if fd, ok := c.Init(); ok {
		return fd, nil
	}
	return -1, nil
}

// initThreads is the thread allowance of an init, which uses about eight: its threads count towards RLIMIT_NPROC of the
// user namespace.
const initThreads = 24

// started starts the enforcement of limits after the init's start.
func (b *Box) started() {
	if b.cgroup != nil {
		b.cgroup.Started(b.process.pid)
	}
	if b.dog != nil {
		b.dog.start()
	}
}

// unlimit removes the enforcement of limits after the last process of the cage has ended.
func (b *Box) unlimit() {
	b.disk.stop()
	if b.dog != nil {
		b.dog.stop()
	}
	if b.cgroup == nil {
		return
	}
	if err := b.cgroup.Remove(); err != nil {
		b.boxes.opts.Log.Warn("a cage's cgroups could not be removed", "cage", b.id, "error", err)
	}
}

// place returns the place that counts a command's resources, nil without one.
func (b *Box) place(id uint32, mark uint64) (link.Place, error) {
	if b.cgroup != nil {
		c, err := b.cgroup.Command("cmd-" + strconv.FormatUint(uint64(id), 10))
		if err != nil {
			return nil, core.BadStart("its cgroups cannot be made: " + link.Reason(err))
		}
		return &counted{box: b, command: c, watched: b.dog.add(mark)}, nil
	}
	if w := b.dog.add(mark); w != nil {
		return w, nil
	}
	return nil, nil
}

// counted is the cgroups of a command. The watchdog may hold limits that the cgroups lack.
type counted struct {
	box     *Box
	command *cgroup.Command
	watched *watched
}

// Files implements link.Place, as do the methods below.
func (c *counted) Files() ([]int, bool) { return c.command.Files() }

// Kill implements link.Place.
func (c *counted) Kill() error { return c.command.Kill() }

// Usage implements link.Place. Memory is the resident memory of the command's processes.
func (c *counted) Usage() (core.Usage, bool) {
	cpu, pids, err := c.command.Usage()
	if err != nil {
		return core.Usage{}, false
	}
	usage := link.UsageOf(pids)
	usage.CPU = cpu
	return usage, true
}

// Release implements link.Place.
func (c *counted) Release() contract.Reason {
	hit := contract.ReasonNone
	if c.watched != nil {
		hit = c.watched.Release()
	}
	switch c.command.Release() {
	case cgroup.HitMemory:
		return contract.ReasonOOM
	case cgroup.HitPIDs:
		return contract.ReasonPIDs
	}
	return hit
}

// usage returns the usage of all processes in the cage. Memory is the cgroup's count, or else resident memory. CPU
// includes ended processes, all of which the init has reaped.
func (b *Box) usage() (usage core.Usage, processes int) {
	pid := b.process.pid
	pids := proc.Descendants(pid)
	usage = link.UsageOf(pids)
	if init, err := proc.Read(pid); err == nil {
		usage.CPU += init.WaitedCPU
	}
	if b.cgroup != nil {
		if memory, err := b.cgroup.Memory(); err == nil {
			usage.Memory = memory
		}
		if cpu, err := b.cgroup.CPU(); err == nil {
			usage.CPU = cpu
		}
	}
	return usage, len(pids)
}

// end kills the cage and records the reason; the first reason counts.
func (b *Box) end(reason contract.Reason) {
	b.ended.CompareAndSwap(int32(contract.ReasonNone), int32(reason))
	b.kill()
}

// limitLayers reports how each limit is enforced for cages with user namespaces or without.
func (b *Boxes) limitLayers(userns bool) []core.Layer {
	layers := make([]core.Layer, 0, 4)
	for _, l := range []struct {
		controller string
		without    core.Layer
	}{
		{"memory", core.Layer{Name: layerMemory, State: "best_effort", By: "polling and killing above the limit"}},
		{"pids", core.Layer{Name: layerPIDs, State: "enforced", By: "RLIMIT_NPROC of the user namespace"}},
		{"cpu", core.Layer{Name: layerCPU, State: "missing"}},
	} {
		by, why := b.support(userns, l.controller)
		layer := l.without
		switch {
		case by != "":
			layer.State, layer.By = "enforced", by
		case l.controller == "pids" && userns:
		case l.controller == "memory":
			layer.Reason, layer.Fix = fmt.Sprintf("%s: usage is polled ten times a second", why), limitFix(systemdBooted)
		default:
			layer.State, layer.By = "missing", ""
			layer.Reason, layer.Fix = fmt.Sprintf("%s: a policy with %s is refused", why, layer.Name), limitFix(systemdBooted)
		}
		layers = append(layers, layer)
	}
	return append(layers, core.Layer{
		Name: layerDisk, State: "best_effort", By: "polling disk usage",
		Reason: "project folders have no quota: usage is polled ten times a second, and a cage above the limit is ended",
	})
}
