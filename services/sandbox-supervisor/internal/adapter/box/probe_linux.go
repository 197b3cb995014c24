package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/seal"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
)

// The states of a layer.
const (
	enforced = "enforced"
	missing  = "missing"
)

// Probe implements core.Boxes.
func (b *Boxes) Probe(context.Context) core.Report { return b.probed() }

// probe makes a cage, runs a command in it, and reports each layer.
func (b *Boxes) probe() core.Report {
	ctx, cancel := context.WithTimeout(context.Background(), 2*b.opts.StartTimeout)
	defer cancel()
	var report core.Report
	box, err := b.try(ctx)
	if err != nil {
		report.Unavailable = err.Error()
	} else {
		report.Tier = box.Tier()
	}
	report.Layers = append(b.namespaceLayers(report.Tier, err), b.otherLayers(report.Tier, err)...)
	report.Layers = append(report.Layers, b.limitLayers(report.Tier != "setuid")...)
	return report
}

// try makes a cage without grants and runs a command in it.
func (b *Boxes) try(ctx context.Context) (core.Box, error) {
	box, err := b.Open(ctx, core.BoxSpec{ID: ident.New(), View: &cage.View{Root: "/"}}, func(contract.Attempt) {})
	if err != nil {
		return nil, err
	}
	defer box.Close()
	p, err := box.Spawn(ctx, core.Spec{Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	p.Copy(func(core.Stream, []byte) {})
	<-p.Exited()
	if end := p.End(); end.Lost || end.Code != 0 || end.Signal != 0 {
		return nil, fault.New(fault.CageUnavailable,
			"A cage was made and `true` failed in it, with exit code %d and signal %d.", end.Code, end.Signal)
	}
	return box, nil
}

// namespaceLayers reports the namespaces of a cage. Without a cage each is tried alone.
func (b *Boxes) namespaceLayers(tier string, err error) []core.Layer {
	layers := []core.Layer{}
	for _, ns := range []struct {
		name string
		flag uintptr
		by   string
	}{
		{blueprint.LayerUser, 0, "a user namespace with one unprivileged uid"},
		{blueprint.LayerMount, unix.CLONE_NEWNS, "a mount namespace with a root of its own"},
		{blueprint.LayerPID, unix.CLONE_NEWPID, "a process namespace with a /proc of its own"},
		{blueprint.LayerNet, unix.CLONE_NEWNET, "a network namespace with a loopback and nothing else"},
		{blueprint.LayerIPC, unix.CLONE_NEWIPC, "an IPC namespace"},
		{blueprint.LayerUTS, unix.CLONE_NEWUTS, "a UTS namespace"},
		{blueprint.LayerCgroupNS, unix.CLONE_NEWCGROUP, "a cgroup namespace"},
	} {
		layer := core.Layer{Name: ns.name, State: enforced, By: ns.by}
		var tryErr error
		switch {
		case tier == "userns":
		case tier == "setuid" && ns.flag == 0, tier == "":
			tryErr = b.tryNamespace(ns.flag)
			if tryErr == nil && layerOf(err) == ns.name {
				tryErr = err
			}
			if tryErr == nil && tier == "setuid" {
				tryErr = errors.New("a cage that has one cannot be made here")
			}
		}
		if tryErr != nil {
			layer.State, layer.By, layer.Reason, layer.Fix = missing, "", reasonOf(tryErr), b.remedy(ns.name, tryErr)
			if tier == "setuid" {
				layer.By = "done without: the cage's processes are another user's, and cannot make namespaces"
			}
		}
		layers = append(layers, layer)
	}
	if _, err := os.Stat("/proc/self/ns/time"); err == nil {
		return append(layers, core.Layer{Name: blueprint.LayerTime, State: enforced, By: "a time namespace"})
	}
	return append(layers, core.Layer{
		Name: blueprint.LayerTime, State: missing, Reason: "this kernel has none",
		Fix: "a kernel with CONFIG_TIME_NS; nothing depends on it",
	})
}

// layerOf returns the layer named in an error, "" if absent.
func layerOf(err error) string {
	layer := ""
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		layer, _ = f.Details["layer"].(string)
	}
	return layer
}

// tryNamespace starts a process in a user namespace and in the namespace of flag.
func (b *Boxes) tryNamespace(flag uintptr) error {
	program, err := image()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close()
	var p *os.Process
	err = seal.Open(func() (err error) {
		argv := []string{"kaged-probe", blueprint.ArgHold}
		p, err = os.StartProcess("/proc/self/fd/"+strconv.Itoa(int(program.Fd())), argv, &os.ProcAttr{
			Env: []string{}, Files: []*os.File{r},
			Sys: &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER | flag,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: blueprint.UID, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: blueprint.GID, HostID: os.Getgid(), Size: 1}},
			},
		})
		return err
	})
	if err != nil {
		return err
	}
	_ = p.Kill()
	_, _ = p.Wait()
	return nil
}

// otherLayers reports the layers other than namespaces. A cage proves those without which its init fails.
func (b *Boxes) otherLayers(tier string, err error) []core.Layer {
	layers := []core.Layer{}
	for _, l := range []core.Layer{
		{Name: blueprint.LayerCaps, By: "all capabilities dropped"},
		{Name: blueprint.LayerNoNew, By: "no_new_privs"},
		{Name: blueprint.LayerSeccomp, By: "a filter of system calls"},
		{Name: "protected files", By: "read-only mounts and stubs; what they cannot prevent, " +
			"such as a new submodule while git is writable, is reported at the cage's end"},
	} {
		l.State = enforced
		if tier == "" {
			l.State, l.By = missing, ""
			l.Reason = "no cage could be made"
			if layerOf(err) == l.Name {
				l.Reason, l.Fix = reasonOf(err), b.remedy(l.Name, err)
			}
		}
		layers = append(layers, l)
	}
	return append(layers, landlockLayer(), b.idmapLayer())
}

// landlockLayer reports the kernel's Landlock version.
func landlockLayer() core.Layer {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	l := core.Layer{Name: blueprint.LayerLandlock}
	switch {
	case errno != 0:
		l.State, l.Reason = missing, errno.Error()
		l.Fix = "a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK, " +
			"and landlock among the names of lsm= on its command line"
	case version < 6:
		l.State, l.By = enforced, fmt.Sprintf("Landlock %d, for files", version)
	default:
		l.State, l.By = enforced, fmt.Sprintf("Landlock %d, for files, signals and abstract sockets", version)
	}
	return l
}

// idmapLayer reports whether files of a project's owner can appear as the cage user's.
func (b *Boxes) idmapLayer() core.Layer {
	l := core.Layer{
		Name: blueprint.LayerIDMap, State: enforced, By: "mounts that map the project's owner to the cage's user",
	}
	b.mu.Lock()
	t := b.tiers[0]
	b.mu.Unlock()
	if t.userns && !t.trees && os.Geteuid() != 0 {
		l.By = "not needed: the cage's user is the one who runs kaged"
		return l
	}
	if err := b.tryMapping(t); err != nil {
		l.State, l.By, l.Reason = missing, "", reasonOf(err)
		l.Fix = fmt.Sprintf("a kernel from 5.12 on and a file system that maps owners; "+
			"or give projects to the user of cages: chown -R %d:%d", t.user.uid, t.user.gid)
	}
	return l
}

// tryMapping clones a folder of the data directory with a mapped owner.
func (b *Boxes) tryMapping(t tier) error {
	if !t.trees {
		return errors.New("this process may not mount")
	}
	if b.opts.Dir != "" {
		_ = os.MkdirAll(b.opts.Dir, 0o700)
	}
	dir, err := os.MkdirTemp(b.opts.Dir, "probe-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	userns, err := b.usernses.get(ids{0, 0}, t.user)
	if err != nil {
		return err
	}
	tree, err := mounts.Clone(int(folder.Fd()), mounts.Writable, userns)
	if err == nil {
		unix.Close(tree)
	}
	return err
}
