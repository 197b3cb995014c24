package sandboxsupervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/escape"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// own asks for cages that would expose the supervisor's data directory, which was named relative to its working folder.
func (s *stage) own(client sandboxsupervisorv1.SandboxServiceClient) {
	for id, mount := range map[string]*commonv1.CageMount{
		"own-root": {Mode: "rw", Path: "project:/"}, "own-root-ro": {Mode: "ro", Path: "project:/"},
		"own-relative": {Mode: "rw", Path: "./data"},
		"own-absolute": {Mode: "ro", Path: filepath.Join(s.dir, "data")}, "own-file": {Mode: "ro", Path: s.params.Own},
		"own-sockets": {Mode: "ro", Path: filepath.Dir(s.params.OwnSocket)}, "own-parent": {Mode: "ro", Path: s.dir},
	} {
		start := s.command(
			&commonv1.CagePolicy{Seccomp: "default", State: "ephemeral", Fs: []*commonv1.CageMount{mount}},
			"case",
			"fs-kaged",
		)
		start.ProjectRoot = s.dir
		r := escape.Result{ID: id, Outcome: escape.Contained}
		_, err := caged(client, start, func([]byte) {})
		if f := fault.From(err); err == nil || f.Code != fault.CagePolicyInvalid ||
			!strings.Contains(f.Msg, "belongs to kaged itself") {
			r = escape.Result{
				ID:      id,
				Outcome: escape.Escaped,
				Detail:  fmt.Sprintf("a cage with %s is answered with %v", mount.GetPath(), err),
			}
		}
		line{Result: r}.print()
	}
}

// neighbours runs the cases of two cages at once.
func (s *stage) neighbours(client sandboxsupervisorv1.SandboxServiceClient) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := client.Exec(ctx)
	must(err)
	must(
		stream.Send(
			&sandboxsupervisorv1.ExecRequest{
				Request: &sandboxsupervisorv1.ExecRequest_Start{Start: s.command(s.policy(escape.Strict), "plant")},
			},
		),
	)
	var said []byte
	for !bytes.Contains(said, []byte("planted\n")) {
		event, err := stream.Recv()
		must(err)
		if event.GetExited() != nil {
			must(fmt.Errorf("the neighbour ended: %v after %q", event, said))
		}
		said = append(said, event.GetOutput().GetData()...)
	}
	_, err = caged(
		client,
		s.command(s.policy(escape.Strict), append([]string{"case"}, ids(escape.Neighbours)...)...),
		relay(escape.Neighbours),
	)
	must(err)
}

// refusedLimit is the detail of a case that cannot be tried because the machine lacks the limit, so that the cage was
// refused.
const refusedLimit = "refused"

// limits runs programs that exceed every limit, each in a cage with one limit.
func (s *stage) limits(client sandboxsupervisorv1.SandboxServiceClient) {
	const (
		noRoom = 3 // exit code of a probe stopped for lack of space
		none   = sandboxsupervisorv1.KillReason_KILL_REASON_UNSPECIFIED
	)
	for _, c := range []struct {
		id     string
		limits *commonv1.CageLimits
		argv   []string
		reason sandboxsupervisorv1.KillReason
		// code is the exit code if the kernel refuses the excess instead of ending the command, 0 if it never does.
		code int32
	}{
		{
			"lim-processes", &commonv1.CageLimits{Pids: 64},
			[]string{"bomb"},
			sandboxsupervisorv1.KillReason_KILL_REASON_PIDS,
			noRoom,
		},
		{
			"lim-memory", &commonv1.CageLimits{MemoryBytes: 96 << 20},
			[]string{"hog"},
			sandboxsupervisorv1.KillReason_KILL_REASON_OOM, 0,
		},
		{"lim-tmpfs", nil, []string{"fill", "/tmp"}, none, noRoom},
		{"lim-tmpfs-memory", &commonv1.CageLimits{MemoryBytes: 96 << 20}, []string{"fill", "/tmp"}, none, noRoom},
		{"lim-inodes", nil, []string{"inodes", "/tmp"}, none, noRoom},
		{"lim-shm", nil, []string{"fill", "/dev/shm"}, none, noRoom},
		{
			"lim-disk", &commonv1.CageLimits{DiskBytes: 8 << 20},
			[]string{"fill", s.params.Open},
			sandboxsupervisorv1.KillReason_KILL_REASON_DISK, 0,
		},
		{
			"lim-disk-mapped", &commonv1.CageLimits{DiskBytes: 8 << 20},
			[]string{"fill-mapped", s.params.Open},
			sandboxsupervisorv1.KillReason_KILL_REASON_DISK, 0,
		},
		{
			"lim-walltime", &commonv1.CageLimits{WalltimeMs: 1000},
			[]string{"deaf"},
			sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME, 0,
		},
	} {
		policy := s.policy(escape.Strict)
		policy.Limits = c.limits
		var said strings.Builder
		exit, err := caged(client, s.command(policy, c.argv...), func(text []byte) { said.Write(text) })
		r := escape.Result{
			ID:      c.id,
			Outcome: escape.Contained,
			Detail:  fmt.Sprintf("%v, %v: %.200s", exit, err, said.String()),
		}
		if err != nil || (exit.GetReason() != c.reason || c.code != 0 && c.reason == none && exit.GetExitCode() != c.code) &&
			(c.code == 0 || exit.GetReason() != none || exit.GetExitCode() != c.code) {
			r.Outcome = escape.Escaped
		}
		if f := fault.From(err); err != nil && errors.Is(err, fault.CageUnavailable) && strings.Contains(f.Msg, "limits.") {
			r = escape.Result{ID: c.id, Outcome: escape.Contained, Detail: refusedLimit}
		}
		line{Profile: escape.Limited, Result: r}.print()
	}
	exit, err := caged(client, s.command(s.policy(escape.Strict), "orphans"), func([]byte) {})
	r := escape.Result{ID: "lim-orphans", Outcome: escape.Contained}
	if left := startedWith("orphans", s.probe()); err != nil || exit.GetExitCode() != 0 || len(left) > 0 {
		r.Outcome, r.Detail = escape.Escaped, fmt.Sprintf("%v, %v: %v are left", exit, err, left)
	}
	line{Profile: escape.Limited, Result: r}.print()
}

// startedWith returns the processes of a stage that were started with an argument.
func startedWith(argument, probe string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte("\x00"+argument+"\x00")) {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if bytes.Contains(environ, []byte(filepath.Dir(probe))) {
			found = append(found, file)
		}
	}
	return found
}

// outside examines the host after all cases.
func (s *stage) outside(hostname string) {
	check := func(id string, err error) {
		r := escape.Result{ID: id, Outcome: escape.Contained}
		if err != nil {
			r = escape.Result{ID: id, Outcome: escape.Escaped, Detail: err.Error()}
		}
		line{Result: r}.print()
	}
	for id, file := range map[string]string{
		"host-canary": s.params.Canary, "host-victim": s.params.Canary + ".victim", "host-sibling": s.params.Sibling,
		"host-tmp":  s.params.HostTmp,
		"host-page": filepath.Join(s.params.Docs, "page"), "host-sealed": filepath.Join(s.params.Sealed, "victim"),
		"host-hook":       filepath.Join(s.params.Repository, ".git", "hooks", "pre-commit.sample"),
		"host-git-config": filepath.Join(s.params.Repository, ".git", "config"),
		"host-skill":      filepath.Join(s.params.Work, ".agents", "skills", "deploy", "SKILL.md"),
	} {
		text, err := os.ReadFile(file)
		if err == nil && string(text) != s.params.Secret+"\n" {
			err = fmt.Errorf("%s holds %.80q now", file, text)
		}
		check(id, err)
	}
	var err error
	if now, e := os.Hostname(); e != nil || now != hostname {
		err = fmt.Errorf("the host is called %s now", now)
	}
	check("host-name", err)
	check("host-process", unix.Kill(s.params.HostPID, 0))
	check("host-leftovers", s.leftovers())
}

// leftovers fails if the attacks left forbidden traces: set-id files, stubs, files in protected places.
func (s *stage) leftovers() error {
	var left []error
	walk := func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice) != 0 {
			left = append(left, fmt.Errorf("%s has mode %s", path, info.Mode()))
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != uint32(os.Getuid()) {
			left = append(left, fmt.Errorf("%s belongs to %d", path, st.Uid))
		}
		if strings.Contains(d.Name(), "planted") {
			left = append(left, fmt.Errorf("%s was planted", path))
		}
		return nil
	}
	for _, dir := range []string{s.params.Project, filepath.Dir(s.params.Canary)} {
		left = append(left, filepath.WalkDir(dir, walk))
	}
	for _, stub := range []string{".git", ".kaged", ".envrc", ".vscode"} {
		if _, err := os.Lstat(filepath.Join(s.params.Work, stub)); err == nil {
			left = append(left, fmt.Errorf("the stub %s is left", stub))
		}
	}
	return errors.Join(left...)
}
