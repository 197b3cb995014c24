package netnstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/handover/rights"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// Way is a way to create a namespace.
type Way string

// The ways.
const (
	// User is a user namespace of the test's user.
	User Way = "user namespace"
	// Bare is without a user namespace: root with its capabilities. Only root can use it.
	Bare Way = "no user namespace"
	// Unprivileged is a user namespace of a user other than root. Only root can use it besides User.
	Unprivileged Way = "user namespace of an unprivileged user"
)

// Ways returns the ways available to the test's user.
func Ways() []Way {
	if os.Geteuid() != 0 {
		return []Way{User}
	}
	return []Way{User, Bare, Unprivileged}
}

// uid of the unprivileged user in tests
const nobody = 65534

// TB is a test or a benchmark.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Space is a namespace. Its methods may be called from any goroutine.
type Space struct {
	// Sockets are the descriptors of Setup; the caller closes them.
	Sockets []int

	conn *net.UnixConn
	mu   sync.Mutex // held for one request and its answer
}

type request struct {
	Argv    []string `json:"argv,omitempty"`
	Network string   `json:"network,omitempty"`
	Address string   `json:"address,omitempty"`
}

type reply struct {
	Output string `json:"output,omitempty"`
	Code   int    `json:"code,omitempty"`
	Error  string `json:"error,omitempty"`
}

// most is the maximum size of passed-on output.
const most = 64 << 10

// Open makes a namespace and sets plan up in it. It is removed at the end of the test.
func Open(t TB, way Way, plan netns.Plan) *Space {
	t.Helper()
	s, err := Try(t, way, plan)
	if err != nil {
		t.Fatalf("set up in a %s: %v", way, err)
	}
	return s
}

// Try is Open for a plan that may be refused.
func Try(t TB, way Way, plan netns.Plan) (*Space, error) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "space"), os.NewFile(uintptr(pair[1]), "space")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(inside, theirs)
	switch way {
	case User:
		cmd.SysProcAttr = namespaces()
	case Bare:
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	case Unprivileged:
		cmd = command(between, theirs)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", way, err)
	}
	s := &Space{conn: conn.(*net.UnixConn)}
	t.Cleanup(func() {
		s.conn.Close() // ends the holder
		cmd.Wait()
	})
	body, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.conn.Write(body); err != nil {
		t.Fatal(err)
	}
	for {
		fds, answer, err := s.receive()
		if err != nil {
			return nil, err
		}
		if answer.Error != "" {
			return nil, errors.New(answer.Error)
		}
		if len(fds) == 0 {
			return s, nil
		}
		s.Sockets = append(s.Sockets, fds...)
	}
}

// Run runs a program in the namespace and returns its output and its exit code.
func (s *Space) Run(t TB, argv ...string) (output string, code int) {
	t.Helper()
	_, answer, err := s.ask(request{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Output, answer.Code
}

// Dial connects from within the namespace.
func (s *Space) Dial(network, address string) (net.Conn, error) {
	fds, answer, err := s.ask(request{Network: network, Address: address})
	if err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	file := os.NewFile(uintptr(fds[0]), address)
	defer file.Close()
	return net.FileConn(file)
}

func (s *Space) ask(r request) ([]int, reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := json.Marshal(r)
	if err != nil {
		return nil, reply{}, err
	}
	if _, err := s.conn.Write(body); err != nil {
		return nil, reply{}, err
	}
	return s.receive()
}

func (s *Space) receive() (fds []int, answer reply, err error) {
	body, oob := make([]byte, 2*most), make([]byte, 4096)
	n, oobn, _, _, err := s.conn.ReadMsgUnix(body, oob)
	if err != nil {
		return nil, answer, err
	}
	if fds, err = rights.Parse(oob[:oobn]); err != nil {
		return nil, answer, err
	}
	return fds, answer, json.Unmarshal(body[:n], &answer)
}

// The stages of the process that holds a namespace.
const (
	variable = "KAGED_TEST_NETNS"
	between  = "between" // not root, about to make the namespace
	inside   = "inside"
)

// Invoked reports whether this process holds a namespace.
func Invoked() bool { return os.Getenv(variable) != "" }

// command is this program in a stage.
func command(stage string, socket *os.File) *exec.Cmd {
	// By its link in /proc, because other users may have no access to its folder.
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), variable+"="+stage)
	cmd.ExtraFiles = []*os.File{socket}
	return cmd
}

// namespaces are the attributes for namespaces of a user.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

// socket is the descriptor of the socket to the test.
const socket = 3

// Main is the main function of the process that holds a namespace.
func Main() {
	stage := os.Getenv(variable)
	os.Unsetenv(variable)
	err := fmt.Errorf("no stage %q", stage)
	switch stage {
	case between:
		cmd := command(inside, os.NewFile(socket, "space"))
		cmd.SysProcAttr = namespaces()
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	case inside:
		err = hold()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netnstest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hold sets the namespace up and serves the test's requests until its end.
func hold() error {
	unix.CloseOnExec(socket)
	file := os.NewFile(socket, "space")
	conn, err := net.FileConn(file)
	if err != nil {
		return err
	}
	file.Close()
	test := conn.(*net.UnixConn)
	body := make([]byte, 2*most)
	n, err := test.Read(body)
	if err != nil {
		return err
	}
	var plan netns.Plan
	if err := json.Unmarshal(body[:n], &plan); err != nil {
		return err
	}
	fds, err := netns.Setup(plan)
	if err == nil {
		err = files()
	}
	if err == nil {
		if _, twice := netns.Setup(netns.Plan{}); twice == nil {
			err = errors.New("a namespace in use was set up")
		}
	}
	if err != nil {
		return answer(test, reply{Error: err.Error()})
	}
	const together = 100 // descriptors in one message
	for len(fds) > 0 {
		now := fds[:min(together, len(fds))]
		if err := answer(test, reply{}, now...); err != nil {
			return err
		}
		for _, fd := range now {
			unix.Close(fd)
		}
		fds = fds[len(now):]
	}
	if err := answer(test, reply{}); err != nil {
		return err
	}
	for {
		n, err := test.Read(body)
		if err != nil {
			return nil // the test has ended
		}
		var r request
		if err := json.Unmarshal(body[:n], &r); err != nil {
			return err
		}
		if err := serve(test, r); err != nil {
			return err
		}
	}
}

// files mounts the name service files over the machine's.
func files() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	for name, text := range map[string]string{
		"resolv.conf": netns.ResolvConf, "nsswitch.conf": netns.Nsswitch, "hosts": netns.Hosts("cage"),
	} {
		if err := os.WriteFile("/tmp/"+name, []byte(text), 0o644); err != nil {
			return err
		}
		if err := unix.Mount("/tmp/"+name, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/etc/%s: %w", name, err)
		}
	}
	return nil
}

func serve(test *net.UnixConn, r request) error {
	if len(r.Argv) == 0 {
		conn, err := net.Dial(r.Network, r.Address)
		if err != nil {
			return answer(test, reply{Error: err.Error()})
		}
		defer conn.Close()
		file, err := conn.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			return err
		}
		defer file.Close()
		return answer(test, reply{}, int(file.Fd()))
	}
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Dir = "/" // the test's working folder may be below the covered /tmp
	output, err := cmd.CombinedOutput()
	code := 127
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	} else {
		output = []byte(err.Error())
	}
	return answer(test, reply{Output: string(output[:min(len(output), most)]), Code: code})
}

func answer(test *net.UnixConn, r reply, fds ...int) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = test.WriteMsgUnix(body, rights, nil)
	return err
}
