package sandboxsupervisor_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/testkit/escape"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
)

func init() {
	helpers["escape"] = helperEscape
	helpers["bystander"] = func() { _, _ = io.Copy(io.Discard, os.Stdin) }
}

// stage is a host with targets that no cage may reach, and a project whose agent tries.
type stage struct {
	dir    string
	params escape.Params
	held   []io.Closer
	shm    uintptr
}

// line is a message from a stage to the test that started it, as JSON.
type line struct {
	// Profile is the cage's kind, empty for an observation from outside.
	Profile escape.Profile `json:"profile,omitempty"`
	escape.Result
	// Refused is the code and the sentence with which a cage was refused.
	Refused string `json:"refused,omitempty"`
	// Tier is how cages are enforced.
	Tier string `json:"tier,omitempty"`
}

func (l line) print() {
	text, err := json.Marshal(l)
	must(err)
	os.Stdout.Write(append(text, '\n'))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ownDir is a data directory for helper processes, which have no test to fail.
func ownDir(path string) ownpath.Path {
	p, err := ownpath.Resolve(path)
	must(err)
	return p
}

// newStage lays everything out in a folder that holds the probe.
func newStage(dir string) *stage {
	project := filepath.Join(dir, "project")
	name := filepath.Base(dir)
	s := &stage{dir: dir, params: escape.Params{
		Secret: "secret-" + ident.New(), Canary: filepath.Join(dir, "outside", "canary"), Sibling: filepath.Join(project, "private", "notes"),
		HostTmp: filepath.Join(
			os.TempDir(),
			"kaged-escape-"+name,
		),
		Project: project, Work: filepath.Join(project, "work"), Docs: filepath.Join(project, "docs"),
		Sealed: filepath.Join(
			project,
			"work",
			"sealed",
		),
		Open: filepath.Join(project, "docs", "deep", "open"), File: filepath.Join(project, "data", "file"),
		Repository: filepath.Join(
			project,
			"work",
			"repository",
		),
		Linked: filepath.Join(project, "work", "linked"), HostShm: "kaged-escape-" + name, SysV: os.Getpid() | 0x4b000000, Supervisor: os.Getpid(),
		Abstract: "kaged-escape-" + name, Socket: filepath.Join(dir, "outside", "service.sock"), Neighbour: "neighbour-" + ident.New(), Denied: "denied.example",
		Own: filepath.Join(dir, "data", "key"), OwnSocket: filepath.Join(dir, "data", "run", "own.sock"),
	}}
	if s.params.Supervisor == 1 { // in a cage that is another one
		s.params.Supervisor = 0
	}
	git := filepath.Join(s.params.Repository, ".git")
	for _, dir := range []string{filepath.Dir(s.params.Canary), filepath.Dir(s.params.Sibling), s.params.Sealed, s.params.Open, filepath.Dir(s.params.File), filepath.Join(git, "hooks"), filepath.Dir(s.params.OwnSocket)} {
		must(os.MkdirAll(dir, 0o755))
	}
	for _, file := range []string{
		s.params.Canary, s.params.Canary + ".victim", s.params.Sibling, s.params.HostTmp, filepath.Join("/dev/shm", s.params.HostShm), filepath.Join(s.params.Docs, "page"),
		filepath.Join(s.params.Sealed, "page"), filepath.Join(s.params.Sealed, "victim"), s.params.File, filepath.Join(filepath.Dir(s.params.File), "neighbour"), filepath.Join(git, "config"),
		s.params.Own, filepath.Join(git, "HEAD"), filepath.Join(git, "hooks", "pre-commit.sample"),
	} {
		must(os.WriteFile(file, []byte(s.params.Secret+"\n"), 0o644))
	}
	s.link()
	must(os.Link(filepath.Join(dir, "probe"), s.probe()))
	id, _, errno := unix.Syscall(unix.SYS_SHMGET, uintptr(s.params.SysV), 4096, unix.IPC_CREAT|0o600)
	if errno != 0 {
		must(errno)
	}
	s.shm = id
	s.params.Port, s.params.Port6 = s.serve("tcp4", "127.0.0.1:0"), s.serve("tcp6", "[::1]:0")
	s.serve("unix", "@"+s.params.Abstract)
	for _, path := range []string{s.params.Socket, filepath.Join(s.params.Docs, "service.sock"), filepath.Join(s.params.Sealed, "service.sock")} {
		s.serve("unix", path)
	}
	s.serve("unix", s.params.OwnSocket)
	s.params.Answer = "allowed"
	s.params.Allowed = fmt.Sprintf("127.0.0.1:%d", s.say("tcp4", "127.0.0.1:0", s.params.Answer))
	bystander := exec.Command("/proc/self/exe", "host-"+s.params.Neighbour)
	bystander.Env = []string{"KAGED_TEST_HELPER=bystander", "KAGED_HOST_SECRET=" + s.params.Secret}
	in, err := bystander.StdinPipe()
	must(err)
	must(bystander.Start())
	s.params.HostPID = bystander.Process.Pid
	s.held = append(s.held, in)
	// A descriptor that a careless program leaks to its children.
	leak, err := unix.Open(filepath.Dir(s.params.Canary), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(err)
	must(unix.Dup2(leak, 200))
	unix.Close(leak)
	return s
}

// link makes the repository with a gitlink.
func (s *stage) link() {
	git := filepath.Join(s.params.Linked, ".git")
	for _, dir := range []string{filepath.Join(git, "objects"), filepath.Join(git, "refs"), filepath.Join(s.params.Linked, "sub"), filepath.Join(s.params.Linked, "tools", "hooks")} {
		must(os.MkdirAll(dir, 0o755))
	}
	entry := make([]byte, 40+20+2)
	binary.BigEndian.PutUint32(entry[24:], 0o160000)
	entry[61] = 3 // the length of the path
	index := slices.Concat(
		[]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"),
		entry,
		[]byte("sub\x00\x00\x00\x00\x00\x00\x00"),
		make([]byte, 20),
	)
	for path, text := range map[string]string{
		filepath.Join(git, "HEAD"): "ref: refs/heads/main\n", filepath.Join(git, "index"): string(index),
		filepath.Join(git, "config"):                     "[core]\nhooksPath = tools/hooks\nfsmonitor = tools/watch\n[include]\npath = ../shared.inc\n",
		filepath.Join(s.params.Linked, "tools", "watch"): "",
	} {
		must(os.WriteFile(path, []byte(text), 0o644))
	}
}

func (s *stage) probe() string { return filepath.Join(s.params.Docs, "probe") }

// serve answers every connection with the secret.
func (s *stage) serve(network, address string) (port int) {
	return s.say(network, address, s.params.Secret)
}

func (s *stage) say(network, address, text string) (port int) {
	l, err := net.Listen(network, address)
	if network == "tcp6" && err != nil {
		return 1 // no IPv6 here, so no listener
	}
	must(err)
	s.held = append(s.held, l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}()
	if at, ok := l.Addr().(*net.TCPAddr); ok {
		return at.Port
	}
	return 0
}

// close removes the stage's files outside its folder.
func (s *stage) close() {
	for _, c := range s.held {
		c.Close()
	}
	unix.Close(200)
	_, _, _ = unix.Syscall(unix.SYS_SHMCTL, s.shm, unix.IPC_RMID, 0)
	_ = os.Remove(filepath.Join("/dev/shm", s.params.HostShm))
	_ = os.Remove(s.params.HostTmp)
}

// env is the environment of a probe.
func (s *stage) env(change ...func(*escape.Params)) map[string]string {
	params := s.params
	for _, c := range change {
		c(&params)
	}
	text, err := json.Marshal(params)
	must(err)
	return map[string]string{escape.Variable: string(text), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
}

// policy is the cage of a profile.
func (s *stage) policy(p escape.Profile) *commonv1.CagePolicy {
	policy := &commonv1.CagePolicy{Seccomp: "default", State: "ephemeral", Fs: []*commonv1.CageMount{
		{Mode: "rw", Path: "project:/work"},
		{Mode: "ro", Path: "./docs"},
		{Mode: "ro", Path: "./" + filepath.Join("work", "sealed")},
		{Mode: "rw", Path: s.params.Open},
		{Mode: "rw", Path: "./data/file"},
	}}
	switch p {
	case escape.Relaxed:
		policy.Seccomp = "relaxed"
	case escape.Networked:
		policy.NetAllow = []string{s.params.Allowed}
	}
	return policy
}

// profiles are the kinds of one cage.
var profiles = []escape.Profile{escape.Strict, escape.Relaxed, escape.Networked}

// ids are the cases of a profile that this machine has.
func ids(p escape.Profile) (ids []string) {
	for _, c := range escape.Catalogue {
		if c.In(p) && (!c.AMD64 || isAMD64) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// command is a command in a cage of its own.
func (s *stage) command(policy *commonv1.CagePolicy, argv ...string) *sandboxsupervisorv1.ExecStart {
	return &sandboxsupervisorv1.ExecStart{
		Owner: &sandboxsupervisorv1.Owner{
			SessionId: "session",
			ProjectId: "project",
		},
		Argv: append([]string{s.probe()}, argv...),
		Cwd:  s.params.Work, Env: s.env(), Cage: policy, ProjectRoot: s.params.Project,
	}
}

// caged runs a command to its end and calls sink with each line of its output.
func caged(
	client sandboxsupervisorv1.SandboxServiceClient,
	start *sandboxsupervisorv1.ExecStart,
	sink func(text []byte),
) (*sandboxsupervisorv1.ExecExited, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	stream, err := client.Exec(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start}}); err != nil &&
		!errors.Is(err, io.EOF) {
		return nil, err
	}
	var rest []byte
	for {
		event, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if exited := event.GetExited(); exited != nil {
			if len(rest) > 0 {
				sink(rest)
			}
			return exited, nil
		}
		rest = append(rest, event.GetOutput().GetData()...)
		for {
			text, after, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			sink(text)
			rest = after
		}
	}
}

// relay prints the output of a probe in a cage of the given profile.
func relay(p escape.Profile) func(text []byte) {
	return func(text []byte) {
		var r escape.Result
		if json.Unmarshal(text, &r) != nil {
			fmt.Fprintf(os.Stderr, "%s\n", text)
			return
		}
		line{Profile: p, Result: r}.print()
	}
}

// helperEscape is a supervisor on a stage of its own in KAGED_TEST_DIR. It runs the catalogue in each kind of cage and
// prints a [line] for each result.
func helperEscape() {
	dir := os.Getenv("KAGED_TEST_DIR")
	s := newStage(dir)
	defer s.close()
	must(os.Setenv("KAGED_HOST_SECRET", s.params.Secret))
	must(os.Chdir(dir))
	hostname, err := os.Hostname()
	must(err)
	h, err := host.New(host.Options{
		DataDir: ownDir(
			"data",
		),
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Version: "0",
		Getenv: func(name string) string { return os.Getenv(name) },
	}, sandboxsupervisor.Module)
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	must(h.Run(ctx, func() {
		defer stop()
		client := sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor"))
		probed, err := client.ProbeCages(ctx, &sandboxsupervisorv1.ProbeCagesRequest{})
		must(err)
		line{Tier: probed.GetTier(), Refused: probed.GetUnavailable()}.print()
		for _, p := range profiles {
			_, err := caged(client, s.command(s.policy(p), append([]string{"case"}, ids(p)...)...), relay(p))
			if err != nil {
				f := fault.From(err)
				line{Profile: p, Refused: string(f.Code.String()) + ": " + f.Msg}.print()
				return
			}
		}
		s.neighbours(client)
		s.limits(client)
		s.own(client)
		for { // the neighbour's children are not waited for
			left, err := client.ListCages(ctx, &sandboxsupervisorv1.ListCagesRequest{})
			must(err)
			if len(left.GetCages()) == 0 {
				break
			}
		}
		s.outside(hostname)
	}))
}

// own asks for cages that would give away the supervisor's data directory, which was named relative to its working
// folder.
func (s *stage) own(client sandboxsupervisorv1.SandboxServiceClient) {
	for id, mount := range map[string]*commonv1.CageMount{
		"own-root": {Mode: "rw", Path: "project:/"}, "own-root-ro": {Mode: "ro", Path: "project:/"}, "own-relative": {Mode: "rw", Path: "./data"},
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

// refusedLimit is the detail of a case that cannot be tried because the machine has no such limit, which the cage was
// refused for.
const refusedLimit = "refused"

// limits runs programs that know no measure, each in a cage with one limit.
func (s *stage) limits(client sandboxsupervisorv1.SandboxServiceClient) {
	const (
		noRoom = 3 // exit code of a probe stopped for lack of room
		none   = sandboxsupervisorv1.KillReason_KILL_REASON_UNSPECIFIED
	)
	for _, c := range []struct {
		id     string
		limits *commonv1.CageLimits
		argv   []string
		reason sandboxsupervisorv1.KillReason
		// code is the exit code where the kernel refuses the excess instead of ending the
		// command, 0 if it never does.
		code int32
	}{
		{"lim-processes", &commonv1.CageLimits{Pids: 64}, []string{"bomb"}, sandboxsupervisorv1.KillReason_KILL_REASON_PIDS, noRoom},
		{"lim-memory", &commonv1.CageLimits{MemoryBytes: 96 << 20}, []string{"hog"}, sandboxsupervisorv1.KillReason_KILL_REASON_OOM, 0},
		{"lim-tmpfs", nil, []string{"fill", "/tmp"}, none, noRoom},
		{"lim-tmpfs-memory", &commonv1.CageLimits{MemoryBytes: 96 << 20}, []string{"fill", "/tmp"}, none, noRoom},
		{"lim-inodes", nil, []string{"inodes", "/tmp"}, none, noRoom},
		{"lim-shm", nil, []string{"fill", "/dev/shm"}, none, noRoom},
		{"lim-disk", &commonv1.CageLimits{DiskBytes: 8 << 20}, []string{"fill", s.params.Open}, sandboxsupervisorv1.KillReason_KILL_REASON_DISK, 0},
		{"lim-disk-mapped", &commonv1.CageLimits{DiskBytes: 8 << 20}, []string{"fill-mapped", s.params.Open}, sandboxsupervisorv1.KillReason_KILL_REASON_DISK, 0},
		{"lim-walltime", &commonv1.CageLimits{WalltimeMs: 1000}, []string{"deaf"}, sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME, 0},
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

// startedWith returns the processes on a stage that were started with an argument.
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

// outside looks at the host after all that.
func (s *stage) outside(hostname string) {
	check := func(id string, err error) {
		r := escape.Result{ID: id, Outcome: escape.Contained}
		if err != nil {
			r = escape.Result{ID: id, Outcome: escape.Escaped, Detail: err.Error()}
		}
		line{Result: r}.print()
	}
	for id, file := range map[string]string{
		"host-canary": s.params.Canary, "host-victim": s.params.Canary + ".victim", "host-sibling": s.params.Sibling, "host-tmp": s.params.HostTmp,
		"host-page": filepath.Join(s.params.Docs, "page"), "host-sealed": filepath.Join(s.params.Sealed, "victim"), "host-hook": filepath.Join(s.params.Repository, ".git", "hooks", "pre-commit.sample"),
		"host-git-config": filepath.Join(s.params.Repository, ".git", "config"),
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

// lines reads the messages of a helper.
func lines(r io.Reader, each func(line)) {
	for in := bufio.NewScanner(r); in.Scan(); {
		var l line
		if json.Unmarshal(in.Bytes(), &l) == nil {
			each(l)
		}
	}
}
