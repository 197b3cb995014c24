package seal_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/seal"
	"kaged.dev/pkg/testkit"
)

// TestMain can run this binary as a sealed process that starts a child in a user namespace and then waits.
func TestMain(m *testing.M) {
	if os.Getenv("KAGED_TEST_SEALED") == "" {
		os.Exit(m.Run())
	}
	seal.Process()
	start := func() error {
		cmd := exec.Command("/bin/true")
		cmd.Env = []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		}
		return cmd.Run()
	}
	fmt.Printf("sealed: %v, opened: %v\n", start() == nil, seal.Open(start))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A sealed process of an ordinary user hides its environment from that user's other processes, and can still start
// children in user namespaces.
func TestSealed(t *testing.T) {
	t.Parallel()
	if part := os.Getenv("KAGED_TEST_READ"); part != "" {
		_, err := os.ReadFile(part)
		fmt.Println("denied:", errors.Is(err, fs.ErrPermission))
		return
	}
	uid := os.Getuid()
	if uid == 0 {
		uid = 23458
	}
	dir, err := os.MkdirTemp("", "kaged-seal-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "self")
	testkit.WriteProgram(t, program, self)
	command := func(env string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env, cmd.Dir = []string{env}, dir
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		}
		return cmd
	}
	cmd := command("KAGED_TEST_SEALED=secret")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "sealed: false, opened: <nil>\n" {
		t.Errorf("children in user namespaces: got %q, %v, want none of a sealed process and one of an opened", line, err)
	}
	for _, file := range []string{"environ", "mem", "maps"} {
		said, err := command(fmt.Sprintf("KAGED_TEST_READ=/proc/%d/%s", cmd.Process.Pid, file), "-test.run=TestSealed").
			Output()
		if err != nil || string(said) != "denied: true\nPASS\n" {
			t.Errorf("reading its %s: got %q, %v, want it denied", file, said, err)
		}
	}
}
