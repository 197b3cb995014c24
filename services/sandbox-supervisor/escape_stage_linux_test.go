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

// stage is a host with targets that no cage may reach, and a project whose agent attacks them.
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
	// Refused is the code and the sentence of a refused cage.
	Refused string `json:"refused,omitempty"`
	// Tier is the kind of enforcement of the cages.
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

// newStage creates the targets in a folder that holds the probe.
func newStage(dir string) *stage {
	project := filepath.Join(dir, "project")
	name := filepath.Base(dir)
	s := &stage{dir: dir, params: escape.Params{
		Secret: "secret-" + ident.New(), Canary: filepath.Join(dir, "outside", "canary"),
		Sibling: filepath.Join(project, "private", "notes"),
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
		Linked: filepath.Join(project, "work", "linked"), HostShm: "kaged-escape-" + name, SysV: os.Getpid() | 0x4b000000,
		Supervisor: os.Getpid(),
		Abstract:   "kaged-escape-" + name, Socket: filepath.Join(dir, "outside", "service.sock"),
		Neighbour: "neighbour-" + ident.New(), Denied: "denied.example",
		Own: filepath.Join(dir, "data", "key"), OwnSocket: filepath.Join(dir, "data", "run", "own.sock"),
	}}
	if s.params.Supervisor == 1 { // in a cage the pid 1 is another process
		s.params.Supervisor = 0
	}
	git := filepath.Join(s.params.Repository, ".git")
	skill := filepath.Join(s.params.Work, ".agents", "skills", "deploy")
	for _, dir := range []string{
		filepath.Dir(s.params.Canary), filepath.Dir(s.params.Sibling), s.params.Sealed, s.params.Open,
		filepath.Dir(s.params.File), filepath.Join(git, "hooks"), filepath.Dir(s.params.OwnSocket), skill,
	} {
		must(os.MkdirAll(dir, 0o755))
	}
	for _, file := range []string{
		s.params.Canary, s.params.Canary + ".victim", s.params.Sibling, s.params.HostTmp,
		filepath.Join("/dev/shm", s.params.HostShm), filepath.Join(s.params.Docs, "page"),
		filepath.Join(s.params.Sealed, "page"), filepath.Join(s.params.Sealed, "victim"), s.params.File,
		filepath.Join(filepath.Dir(s.params.File), "neighbour"), filepath.Join(git, "config"),
		s.params.Own, filepath.Join(git, "HEAD"), filepath.Join(git, "hooks", "pre-commit.sample"),
		filepath.Join(skill, "SKILL.md"),
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
	for _, path := range []string{
		s.params.Socket, filepath.Join(s.params.Docs, "service.sock"), filepath.Join(s.params.Sealed, "service.sock"),
	} {
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
	// A descriptor as leaked by a careless program to its children.
	leak, err := unix.Open(filepath.Dir(s.params.Canary), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(err)
	must(unix.Dup2(leak, 200))
	unix.Close(leak)
	return s
}

// link makes the repository with a gitlink.
func (s *stage) link() {
	git := filepath.Join(s.params.Linked, ".git")
	for _, dir := range []string{
		filepath.Join(git, "objects"), filepath.Join(git, "refs"), filepath.Join(s.params.Linked, "sub"),
		filepath.Join(s.params.Linked, "tools", "hooks"),
	} {
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
		filepath.Join(git, "config"): "[core]\nhooksPath = tools/hooks\nfsmonitor = " +
			"tools/watch\n[include]\npath = ../shared.inc\n",
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

// policy is the policy of a profile.
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

// command is a command in its own cage.
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
	if err := stream.Send(&sandboxsupervisorv1.ExecRequest{
		Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start},
	}); err != nil &&
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

// helperEscape is a supervisor on a new stage in KAGED_TEST_DIR. It runs the catalogue in each kind of cage and prints
// a [line] for each result.
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
		for { // does not wait for the neighbour's children
			left, err := client.ListCages(ctx, &sandboxsupervisorv1.ListCagesRequest{})
			must(err)
			if len(left.GetCages()) == 0 {
				break
			}
		}
		s.outside(hostname)
	}))
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
