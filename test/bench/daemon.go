package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/host"
)

// startLimit is the time limit for a daemon's start.
const startLimit = time.Minute

// daemon is a running kaged up that is measured.
type daemon struct {
	cmd    *exec.Cmd
	dir    string // the folder of its data, configuration and project
	works  string // the project of new sessions, bench if empty
	client *client.Client
	stderr bytes.Buffer
	exited chan struct{}
}

func dataDir(dir string) string { return filepath.Join(dir, "data") }

// environ returns an environment without the variables of this machine's kaged.
func environ(dir string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "KAGED_PG_BIN=" + os.Getenv("KAGED_PG_BIN"),
		"KAGED_DATA_DIR=" + dataDir(dir), "KAGED_CONFIG=" + filepath.Join(dir, "local.toml"), "KAGED_LOG_LEVEL=warn",
		"KAGED_RATE_LIMITS=off",
		"KAGED_CPU_PROFILE=" + os.Getenv("KAGED_CPU_PROFILE"),
	}
}

// start runs kaged up in dir, with further variables, and returns when it has printed that it is ready.
func start(ctx context.Context, kaged, dir string, env ...string) (*daemon, error) {
	d := &daemon{dir: dir, exited: make(chan struct{})}
	d.cmd = exec.Command(kaged, "up", "--listen", "127.0.0.1:0")
	d.cmd.Env = append(environ(dir), env...)
	d.cmd.Stderr = &d.stderr
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		defer close(d.exited)
		for sc := bufio.NewScanner(stdout); sc.Scan(); {
			ready <- sc.Text()
		}
		_ = d.cmd.Wait()
	}()
	select {
	case <-ready:
		return d, nil
	case <-d.exited:
		return nil, fmt.Errorf("kaged up ended: %s", d.stderr.String())
	case <-time.After(startLimit):
	case <-ctx.Done():
	}
	d.stop()
	return nil, errors.New("kaged up did not become ready")
}

func (d *daemon) signIn(ctx context.Context) (err error) {
	d.client, err = client.SignIn(ctx, host.SocketPath(dataDir(d.dir), "gateway"))
	return err
}

func (d *daemon) stop() {
	if d.client != nil {
		d.client.Close()
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(startLimit):
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
}

// session creates a session of the project.
func (d *daemon) session(ctx context.Context) (string, error) {
	var created struct{ ID string }
	path := "/api/v1/projects/" + cmp.Or(d.works, "bench") + "/sessions"
	err := d.client.Do(ctx, http.MethodPost, path, map[string]any{}, &created)
	return created.ID, err
}

func (d *daemon) load(ctx context.Context, project string) error {
	var loaded struct{ State string }
	if err := d.client.Do(ctx, http.MethodPost, "/api/v1/projects/load", map[string]any{"path": project},
		&loaded); err != nil {
		return err
	}
	if loaded.State != "ready" {
		return fmt.Errorf("the project is %s", loaded.State)
	}
	return nil
}

// post sends a message.
func (d *daemon) post(ctx context.Context, session, text string) error {
	return d.client.Do(ctx, http.MethodPost, "/api/v1/sessions/"+session+"/messages", map[string]any{"content": text}, nil)
}

// cpu returns the CPU time of the daemon and of every process below it, both running and ended ones.
func (d *daemon) cpu() (time.Duration, error) { return cpuOf(d.cmd.Process.Pid) }

// cpuOf is cpu for the tree below any process.
func cpuOf(root int) (total time.Duration, err error) {
	tree, err := processesOf(root)
	for _, p := range tree {
		total += p.used
	}
	return total, err
}

func readStat(path string) (pid, ppid int, ticks int64, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, 0, false
	}
	text := string(data)
	end := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[end+1:])
	if end < 0 || len(fields) < 15 {
		return 0, 0, 0, false
	}
	pid, _ = strconv.Atoi(text[:strings.IndexByte(text, ' ')])
	ppid, _ = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] { // utime stime cutime cstime
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return pid, ppid, ticks, true
}

func (d *daemon) memory(key string) (int64, error) { return memoryOf(d.cmd.Process.Pid, key) }
func (d *daemon) resetPeak() error                 { return resetPeakOf(d.cmd.Process.Pid) }

// memoryOf returns a line of /proc/PID/status in bytes: VmRSS is the present value, VmHWM the peak.
func memoryOf(pid int, key string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s", key)
}

// resetPeakOf resets the peak to the present value.
func resetPeakOf(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
