package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// peer is a program with the task of a tool, for comparison.
type peer struct {
	// title is its name and version. path is its path, empty if it is not installed.
	title, path string
}

// findPeer finds a program by its names in PATH and in the folder of `scripts/setup.sh bench`.
func (w *world) findPeer(ctx context.Context, title string, names ...string) peer {
	for _, name := range names {
		path := filepath.Join(filepath.Dir(w.kaged), "peers", name)
		if _, err := os.Stat(path); err != nil {
			if path, err = exec.LookPath(name); err != nil {
				continue
			}
		}
		if out, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil {
			line, _, _ := strings.Cut(string(out), "\n")
			for _, field := range strings.Fields(line) {
				if c := strings.TrimPrefix(field, "v"); c != "" && '0' <= c[0] && c[0] <= '9' {
					title += " " + c
					break
				}
			}
		}
		return peer{title, path}
	}
	return peer{title: title}
}

// missing returns the text in the place of the peer's figure.
func (p peer) missing() string { return p.title + " is not installed: scripts/setup.sh bench" }

// ran has the cost and the output of one run of a program.
type ran struct {
	wall, cpu time.Duration
	output    []byte
}

// run runs the peer in dir. Exit code 1 is no failure, because these programs use it for an empty result.
func (p peer) run(ctx context.Context, dir string, args ...string) (ran, error) {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begun := time.Now()
	err := cmd.Run()
	r := ran{wall: time.Since(begun), output: stdout.Bytes()}
	if cmd.ProcessState != nil {
		r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && stderr.Len() == 0 {
		err = nil
	}
	if err != nil {
		return r, fmt.Errorf("%s %v: %w: %.300s", p.title, args, err, stderr.String())
	}
	return r, nil
}
