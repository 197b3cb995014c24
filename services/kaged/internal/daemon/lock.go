package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// Info is the content of daemon.json.
type Info struct {
	// PID is its process id.
	PID int `json:"pid"`
	// URL is the base URL of its HTTP listener.
	URL string `json:"url"`
	// Version is its version.
	Version string `json:"version"`
}

// InUseError is the error if another daemon runs on the data directory.
type InUseError struct {
	DataDir string
	Info    Info
}

// Error returns the sentence in interfaces.md. A daemon that is still starting has no URL yet.
func (e *InUseError) Error() string {
	if e.Info.URL == "" {
		return fmt.Sprintf("data directory %s is in use by kaged pid %d, which is starting", e.DataDir, e.Info.PID)
	}
	return fmt.Sprintf("data directory %s is in use by kaged pid %d at %s", e.DataDir, e.Info.PID, e.Info.URL)
}

// lock is the lock of a data directory. Closing the file releases it.
type lock struct {
	file *os.File
	dir  string
}

func runDir(dataDir string) string   { return filepath.Join(dataDir, "run") }
func infoPath(dataDir string) string { return filepath.Join(runDir(dataDir), "daemon.json") }

// acquire locks the data directory, creates it if necessary, and removes the daemon.json of a killed daemon. It fails
// with *InUseError if another process has the lock.
func acquire(dataDir string) (*lock, error) {
	if err := os.MkdirAll(runDir(dataDir), 0o700); err != nil {
		return nil, fault.Wrap(
			err,
			fault.Unavailable,
			"The data directory %s cannot be made; choose another with --data-dir.",
			dataDir,
		)
	}
	file, err := os.OpenFile(filepath.Join(runDir(dataDir), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Wrap(
			err,
			fault.Unavailable,
			"The data directory %s cannot be written; choose another with --data-dir.",
			dataDir,
		)
	}
	l := &lock{file, dataDir}
	switch err := take(file); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		defer file.Close()
		info, err := readInfo(dataDir)
		if err != nil {
			info = Info{PID: startingPID(file)}
		}
		return nil, &InUseError{DataDir: dataDir, Info: info}
	case err != nil:
		file.Close()
		return nil, fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be locked.", dataDir)
	}
	if err := l.claim(); err != nil {
		file.Close()
		return nil, fault.Wrap(
			err,
			fault.Unavailable,
			"The data directory %s cannot be written; choose another with --data-dir.",
			dataDir,
		)
	}
	return l, nil
}

// A command that checks for a daemon holds the lock for an instant, a daemon permanently. So a starting daemon tries
// several times.
const (
	takeTries = 10
	takePause = 10 * time.Millisecond
)

func take(file *os.File) error {
	for try := 1; ; try++ {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == takeTries {
			return err
		}
		time.Sleep(takePause)
	}
}

// claim writes the pid to the lock's file, where it stays until daemon.json is written.
func (l *lock) claim() error {
	if err := os.Remove(infoPath(l.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	return err
}

// startingPID reads the pid that [lock.claim] wrote, 0 if it has not written yet.
func startingPID(file *os.File) int {
	var buf [16]byte
	n, _ := file.ReadAt(buf[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid
}

// publish writes daemon.json atomically.
func (l *lock) publish(info Info) error {
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	tmp := infoPath(l.dir) + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o600); err != nil {
		return fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be written.", l.dir)
	}
	return os.Rename(tmp, infoPath(l.dir))
}

func (l *lock) release() {
	os.Remove(infoPath(l.dir))
	l.file.Close()
}

func readInfo(dataDir string) (Info, error) {
	var info Info
	data, err := os.ReadFile(infoPath(dataDir))
	if err != nil {
		return info, err
	}
	return info, json.Unmarshal(data, &info)
}

// Find returns the daemon that runs on dataDir, and false if there is none. It waits for a starting daemon.
func Find(ctx context.Context, dataDir string) (info Info, running bool, err error) {
	for range (retry.Pauses{First: readyPoll, Last: readyPoll, Within: startTimeout}).Each(ctx) {
		var starting bool
		if info, running, starting, err = look(dataDir); !starting {
			return info, running, err
		}
	}
	if ctx.Err() != nil {
		return Info{}, false, ctx.Err()
	}
	return Info{}, false, fault.New(
		fault.Unavailable,
		"The daemon on %s is still starting; its log is in %s.",
		dataDir,
		filepath.Join(dataDir, "log"),
	)
}

// startTimeout is the time limit for waiting for a starting daemon; the creation of a data directory takes seconds.
const startTimeout = time.Minute

// look reports whether a daemon runs on dataDir, and whether it is still starting.
func look(dataDir string) (info Info, running, starting bool, err error) {
	file, err := os.OpenFile(filepath.Join(runDir(dataDir), "lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, false, false, nil
	}
	if err != nil {
		return Info{}, false, false, fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be read.", dataDir)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return Info{}, false, false, nil
	}
	info, err = readInfo(dataDir)
	return info, err == nil, err != nil, nil
}
