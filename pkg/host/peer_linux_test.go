package host_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Unprivileged user ids of processes.
const (
	ordinary = 23456
	stranger = 34567
)

// play acts as another process in the data directory KAGED_TEST_DIR: "serve" runs a service until standard input ends,
// "call" calls it once and prints the outcome.
func play(part string) int {
	dir := os.Getenv("KAGED_TEST_DIR")
	dataDir, err := config.Resolve(filepath.Join(dir, "data"))
	if err == nil && part == "serve" {
		err = playService(host.Options{
			DataDir: dataDir, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Version: "0", Getenv: os.Getenv,
		})
	} else if err == nil {
		err = playCaller(func() (*host.Elsewhere, error) { return host.NewElsewhere(&config.File{}, dataDir, os.Getenv) })
	}
	if err != nil {
		fmt.Println(fault.From(err).Code, fault.From(err).Msg)
		return 1
	}
	return 0
}

func playService(opts host.Options) error {
	h, err := host.New(opts, newProbe("probe", &journal{}).module())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	return h.Run(ctx, func() {
		// With an open mode only the check of the caller guards the socket.
		path := host.SocketPath(opts.DataDir.String(), "probe")
		for _, p := range []string{path, filepath.Dir(path), opts.DataDir.String()} {
			_ = os.Chmod(p, 0o777)
		}
		fmt.Println("ready")
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	})
}

func playCaller(reach func() (*host.Elsewhere, error)) error {
	elsewhere, err := reach()
	if err != nil {
		return err
	}
	defer elsewhere.Close()
	conn := elsewhere.Dial("probe")
	_, health := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	_, rpc := toolrunnerv1.NewToolRunnerServiceClient(conn).
		EndSession(context.Background(), &toolrunnerv1.EndSessionRequest{})
	if fault.CodeOf(health) != fault.CodeOf(rpc) {
		return fmt.Errorf("health answers %w, the service %w", health, rpc)
	}
	if rpc == nil {
		fmt.Println("served")
	}
	return rpc
}

// as is the user and the namespaces of a started process.
type as struct {
	uid   int
	flags uintptr
}

// scene is a folder that every user can use, with this program in it.
type scene struct {
	t   *testing.T
	dir string
}

func newScene(t *testing.T, uid int) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("", "kaged-peers-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	must(t, os.Chmod(dir, 0o755))
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	testkit.WriteProgram(t, filepath.Join(dir, "self"), self)
	must(t, os.Chmod(filepath.Join(dir, "self"), 0o755))
	if os.Getuid() == 0 {
		must(t, os.Chown(filepath.Join(dir, "data"), uid, uid))
	}
	return &scene{t, dir}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *scene) command(part string, who as, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.dir, "self"))
	cmd.Env = append(env, "KAGED_TEST_PEER="+part, "KAGED_TEST_DIR="+s.dir)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: who.flags}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.uid)}
	} else if who.flags != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
	}
	if cmd.SysProcAttr.Cloneflags&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: who.uid, HostID: who.uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = cmd.SysProcAttr.UidMappings
		cmd.SysProcAttr.GidMappingsEnableSetgroups = os.Getuid() == 0
	}
	return cmd
}

// serve starts the service, which ends with the test.
func (s *scene) serve(who as, env ...string) {
	s.t.Helper()
	cmd := s.command("serve", who, env...)
	in, err := cmd.StdinPipe()
	must(s.t, err)
	out, err := cmd.StdoutPipe()
	must(s.t, err)
	var log bytes.Buffer
	cmd.Stderr = &log
	must(s.t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	s.t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("the service said: %s", &log)
		}
	})
	if line != "ready\n" {
		s.t.Fatalf("the service did not start: %s", line)
	}
}

// call calls the service and returns the answer to the caller.
func (s *scene) call(who as, env ...string) string {
	s.t.Helper()
	out, _ := s.command("call", who, env...).Output()
	return strings.TrimSpace(string(out))
}

func (s *scene) want(name, got, want string) {
	s.t.Helper()
	if !strings.HasPrefix(got, want) {
		s.t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

// Access to a socket does not imply an answer. A service answers processes of its own user and of root outside of every
// cage. It refuses processes in a nested pid namespace and processes of another user, although the socket's mode lets
// all of them connect.
func TestPeers(t *testing.T) {
	t.Parallel()
	users := map[string]int{"user": os.Getuid()}
	if os.Getuid() == 0 {
		users = map[string]int{"root": 0, "user": ordinary}
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, uid)
			s.serve(as{uid: uid})
			s.want("the same user", s.call(as{uid: uid}), "served")
			s.want(
				"in a namespace of processes",
				s.call(as{uid, unix.CLONE_NEWPID}),
				"forbidden kaged's services answer no process in a cage",
			)
			s.want(
				"in a user namespace too",
				s.call(as{uid, unix.CLONE_NEWPID | unix.CLONE_NEWUSER}),
				"forbidden kaged's services answer no process in a cage",
			)
			if os.Getuid() != 0 {
				return
			}
			s.want("root", s.call(as{uid: 0}), "served")
			s.want("another user", s.call(as{uid: stranger}), "forbidden kaged's services answer the user they run as, and root")
			s.want(
				"root in a namespace",
				s.call(as{0, unix.CLONE_NEWPID}),
				"forbidden kaged's services answer no process in a cage",
			)
		})
	}
}

// A process of another container cannot be examined. It is served if it sends the token that both read from
// KAGED_SERVICE_TOKEN_FILE; otherwise the error names the token.
func TestPeersOfOtherContainers(t *testing.T) {
	t.Parallel()
	uid := os.Getuid()
	for name, c := range map[string]struct{ theirs, ours, want string }{
		"no token": {"", "", "unauthenticated The caller is in another container, where kaged cannot see what it " +
			"is: set KAGED_SERVICE_TOKEN_FILE"},
		"one has a token": {"", "right", "unauthenticated The caller is in another container"},
		"the other has":   {"right", "", "unauthenticated The caller does not show the service token"},
		"a wrong token":   {"right", "wrong", "unauthenticated The caller does not show the service token"},
		"the right token": {"right", "right", "served"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, uid)
			token := func(name string) (env []string) {
				if name == "" {
					return nil
				}
				path := filepath.Join(s.dir, name)
				must(t, os.WriteFile(path, []byte(strings.Repeat(name, 8)+"\n"), 0o600))
				return []string{"KAGED_SERVICE_TOKEN_FILE=" + path}
			}
			s.serve(as{uid, unix.CLONE_NEWPID}, token(c.theirs)...)
			s.want(name, s.call(as{uid: uid}, token(c.ours)...), c.want)
		})
	}
}

// A token does not admit a process that can be examined and is refused.
func TestTokenIsNoPassForACage(t *testing.T) {
	t.Parallel()
	uid := os.Getuid()
	s := newScene(t, uid)
	path := filepath.Join(s.dir, "token")
	must(t, os.WriteFile(path, []byte(strings.Repeat("x", 32)), 0o600))
	env := "KAGED_SERVICE_TOKEN_FILE=" + path
	s.serve(as{uid: uid}, env)
	s.want("outside", s.call(as{uid: uid}), "served")
	s.want("in a cage", s.call(as{uid, unix.CLONE_NEWPID}, env), "forbidden")
}

// A file without a valid token is refused at the start, with its path and a remedy.
func TestServiceTokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"short": "x", "empty": "", "lines": strings.Repeat("x", 40) + "\nsecond", "binary": strings.Repeat("\x01", 40),
		"long":    strings.Repeat("x", 5000),
		"missing": "", "folder": "",
	} {
		path := filepath.Join(dir, name)
		switch name {
		case "missing":
		case "folder":
			must(t, os.Mkdir(path, 0o700))
		default:
			must(t, os.WriteFile(path, []byte(content), 0o600))
		}
		opts := options(t)
		opts.Getenv = func(key string) string { return map[string]string{"KAGED_SERVICE_TOKEN_FILE": path}[key] }
		_, err := host.New(opts, newProbe("probe", &journal{}).module())
		if fault.CodeOf(err) != fault.BadRequest || !strings.Contains(fault.From(err).Msg, path) ||
			!strings.Contains(fault.From(err).Msg, "openssl rand") {
			t.Errorf("%s: got %v, want bad_request with the path and what to do", name, err)
		}
	}
}

// kaged's own paths include the data directory, the configuration, the token and the sockets configured elsewhere, each
// without links.
func TestOwn(t *testing.T) {
	t.Parallel()
	dir := testkit.Own(t, t.TempDir()).String()
	must(t, os.Symlink(dir, filepath.Join(dir, "link")))
	file, err := config.Parse(filepath.Join(dir, "local.toml"), fmt.Appendf(
		nil,
		"[host]\nservice_token_file = \"link/token\"\n[services.a]\nlisten = "+
			"\"unix:%[1]s/link/run/a.sock\"\n[services.b]\naddress = \"unix:%[1]s/b.sock\"\n",
		dir,
	))
	must(t, err)
	own, err := host.Own(
		file,
		testkit.Own(t, file.Path),
		testkit.Own(t, filepath.Join(dir, "data")),
		func(name string) string {
			return map[string]string{
				"KAGED_NATS_URL_FILE":       filepath.Join(dir, "link/nats"),
				"KAGED_SERVICES_C_D_LISTEN": "unix:" + filepath.Join(dir, "link/c.sock"),
				"KAGED_SERVICES_E_ADDRESS":  "unix:" + filepath.Join(dir, "link/e.sock"),
				"KAGED_SERVICES_C_D_FILE":   filepath.Join(dir, "link/named"),
				"KAGED_DATABASE_URL":        "postgres:///x?host=" + filepath.Join(dir, "link/pg") + ",127.0.0.1&port=5433",
			}[name]
		},
		host.Module{
			Name:  "c-d",
			Needs: []string{"e"},
			Files: []host.OperatorFile{{Key: "file"}, {Key: "other", Default: "beside"}, {Key: "none"}},
		},
	)
	must(t, err)
	var got []string
	for _, p := range own {
		got = append(got, strings.TrimPrefix(p.String(), dir))
	}
	if want := "/data /local.toml /token /nats /named /beside /run/a.sock /b.sock /c.sock /e.sock /pg/.s.PGSQL.5433"; strings.Join(
		got,
		" ",
	) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	long := testkit.Own(t, filepath.Join(dir, strings.Repeat("long", 25)))
	own, err = host.Own(&config.File{}, testkit.Own(t, file.Path), long, func(string) string { return "" })
	must(t, err)
	if at := filepath.Dir(host.SocketPath(long.String(), "x")); own[len(own)-1].String() != testkit.Own(t, at).String() {
		t.Errorf("got %v, want the short folder %s too", own, at)
	}
}
