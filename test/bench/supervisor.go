package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// unprivileged is the user, besides root, that creates cages.
const unprivileged = 64322

// supervisor is a sandbox-supervisor in its own process, called as the tool-runner calls it.
type supervisor struct {
	sandboxsupervisorv1.SandboxServiceClient
	conn    *grpc.ClientConn
	cmd     *exec.Cmd
	dir     string // the folder of all its files and of the project
	project string
}

// startSupervisor starts the sandbox-supervisor of the measured kaged, as the given user, and returns when it serves.
func (w *world) startSupervisor(ctx context.Context, uid int) (_ *supervisor, err error) {
	s := &supervisor{}
	// The folder is not in w.dir, because only its owner may enter that.
	if s.dir, err = os.MkdirTemp("", "kaged-bench-cage-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	s.project = filepath.Join(s.dir, "project")
	data, binary := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "sandbox-supervisor")
	program, err := os.ReadFile(filepath.Join(filepath.Dir(w.kaged), "sandbox-supervisor"))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		os.Chmod(s.dir, 0o755), os.WriteFile(binary, program, 0o755), os.MkdirAll(filepath.Join(s.project, "work"), 0o755),
		os.Mkdir(data, 0o700),
	); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(binary, "--data-dir", data)
	s.cmd.Env, s.cmd.Stderr, s.cmd.Dir = append(environ(s.dir), "HOME="+s.dir), os.Stderr, s.dir
	if uid != 0 {
		for _, path := range []string{s.dir, data, s.project, filepath.Join(s.project, "work")} {
			if err := os.Chown(path, uid, uid); err != nil {
				return nil, err
			}
		}
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if s.conn, err = grpc.NewClient("unix:"+host.SocketPath(data, "sandbox-supervisor"),
		rpc.DialOptions()...); err != nil {
		return nil, err
	}
	s.SandboxServiceClient = sandboxsupervisorv1.NewSandboxServiceClient(s.conn)
	bounded, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	_, err = s.ListProcesses(bounded, &sandboxsupervisorv1.ListProcessesRequest{}, grpc.WaitForReady(true))
	return s, err
}

func (s *supervisor) stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// ping is a call without work for the supervisor.
func (s *supervisor) ping(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	_, err := grpc_health_v1.NewHealthClient(s.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return time.Since(begun), err
}

// held is a cage on hold.
type held struct {
	s      *supervisor
	id     string
	policy *commonv1.CagePolicy
	cancel context.CancelFunc
	stream sandboxsupervisorv1.SandboxService_HoldCageClient
}

// hold creates a cage and returns when commands can be started in it.
func (s *supervisor) hold(ctx context.Context, policy *commonv1.CagePolicy) (*held, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &held{s: s, id: ident.New(), policy: policy, cancel: cancel}
	var err error
	c.stream, err = s.HoldCage(ctx, &sandboxsupervisorv1.HoldCageRequest{
		CageId: c.id, Owner: &sandboxsupervisorv1.Owner{SessionId: c.id}, AgentPath: "primary", Policy: policy,
		ProjectRoot: s.project,
	})
	if err == nil {
		_, err = c.stream.Recv()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return c, nil
}

// release ends the cage and returns when it has ended.
func (c *held) release(ctx context.Context) error {
	c.cancel()
	_, err := c.s.EndOwner(ctx, &sandboxsupervisorv1.EndOwnerRequest{SessionId: c.id})
	return err
}

// command is a command in the cage.
func (c *held) command(terminal bool, argv ...string) *sandboxsupervisorv1.ExecStart {
	start := c.s.command(c.policy, terminal, argv...)
	start.CageId = c.id
	start.Owner.SessionId = c.id
	return start
}

// command returns a command with its own cage, or without a cage.
func (s *supervisor) command(
	policy *commonv1.CagePolicy, terminal bool, argv ...string,
) *sandboxsupervisorv1.ExecStart {
	start := &sandboxsupervisorv1.ExecStart{
		Owner: &sandboxsupervisorv1.Owner{SessionId: "bench"}, Argv: argv, Cwd: filepath.Join(s.project, "work"),
		Env:  map[string]string{"PATH": "/usr/bin:/bin"},
		Cage: policy, ProjectRoot: s.project,
	}
	if terminal {
		start.Terminal = &sandboxsupervisorv1.Terminal{Cols: 80, Rows: 24}
	}
	return start
}

// descendants returns the resident memory of every process below the supervisor.
func (s *supervisor) descendants() (total int64, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	parents := map[int]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == s.cmd.Process.Pid {
				rss, err := memoryOf(pid, "VmRSS")
				if err == nil {
					total += rss
				}
				break
			}
		}
	}
	return total, nil
}

// runtimes are programs that create similar boxes, and their arguments to run true in one: with all namespaces, the
// system read-only, and no network.
var runtimes = []struct {
	title   string
	prepare func(dir string) ([]string, error)
}{
	{"bwrap", func(string) ([]string, error) {
		args := []string{
			"--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		}
		for _, dir := range systemFolders() {
			args = append(args, "--ro-bind", dir, dir)
		}
		return append(args, "/usr/bin/true"), nil
	}},
	{"crun", func(dir string) ([]string, error) {
		bundle, err := makeBundle(dir)
		return []string{
			"--cgroup-manager=disabled", "--root", filepath.Join(dir, "crun"), "run", "--bundle", bundle, "bench-crun",
		}, err
	}},
	{"runc", func(dir string) ([]string, error) {
		bundle, err := makeBundle(dir)
		return []string{"--root", filepath.Join(dir, "runc"), "run", "--bundle", bundle, "bench-runc"}, err
	}},
}

func systemFolders() (found []string) {
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin"} {
		if _, err := os.Stat(dir); err == nil {
			found = append(found, dir)
		}
	}
	return found
}

// makeBundle writes the input of the OCI runtimes.
func makeBundle(dir string) (string, error) {
	bundle := filepath.Join(dir, "bundle")
	if err := os.MkdirAll(filepath.Join(bundle, "rootfs"), 0o755); err != nil {
		return "", err
	}
	type m = map[string]any
	mounts := []m{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
		{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
	}
	for _, folder := range systemFolders() {
		mounts = append(mounts, m{
			"destination": folder, "type": "bind", "source": folder, "options": []string{"rbind", "ro"},
		})
	}
	var spaces []m
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount"} {
		spaces = append(spaces, m{"type": kind})
	}
	text, err := json.Marshal(m{
		"ociVersion": "1.0.2", "root": m{"path": "rootfs"}, "mounts": mounts, "linux": m{"namespaces": spaces},
		"process": m{
			"args": []string{"/usr/bin/true"}, "cwd": "/", "user": m{"uid": 1000, "gid": 1000}, "noNewPrivileges": true,
			"env": []string{"PATH=/usr/bin"},
		},
	})
	if err != nil {
		return "", err
	}
	return bundle, os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o644)
}
