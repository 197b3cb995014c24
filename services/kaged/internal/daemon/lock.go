package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"kaged.dev/pkg/fault"
)

// Info is daemon.json: what a running daemon says about itself.
type Info struct {
	// PID is its process id.
	PID int `json:"pid"`
	// URL is the base URL of its HTTP listener.
	URL string `json:"url"`
	// Version is its version.
	Version string `json:"version"`
}

// InUseError says that another daemon runs on the data directory.
type InUseError struct {
	DataDir string
	Info    Info
}

// Error is the sentence interfaces.md fixes.
func (e *InUseError) Error() string {
	return fmt.Sprintf("data directory %s is in use by kaged pid %d at %s", e.DataDir, e.Info.PID, e.Info.URL)
}

// lock is the hold of a data directory. Closing the file gives it up.
type lock struct {
	file *os.File
	dir  string
}

func runDir(dataDir string) string   { return filepath.Join(dataDir, "run") }
func infoPath(dataDir string) string { return filepath.Join(runDir(dataDir), "daemon.json") }

// acquire takes the data directory, making it if need be. It fails with *InUseError where another process has it.
func acquire(dataDir string) (*lock, error) {
	if err := os.MkdirAll(runDir(dataDir), 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be made; choose another with --data-dir.", dataDir)
	}
	file, err := os.OpenFile(filepath.Join(runDir(dataDir), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be written; choose another with --data-dir.", dataDir)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		file.Close()
		info, _ := readInfo(dataDir)
		return nil, &InUseError{DataDir: dataDir, Info: info}
	}
	if err != nil {
		file.Close()
		return nil, fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be locked.", dataDir)
	}
	return &lock{file, dataDir}, nil
}

// publish writes daemon.json, whole or not at all.
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

// Find returns the daemon that runs on dataDir, false if none does.
func Find(dataDir string) (Info, bool, error) {
	file, err := os.OpenFile(filepath.Join(runDir(dataDir), "lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, false, nil
	}
	if err != nil {
		return Info{}, false, fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be read.", dataDir)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return Info{}, false, nil
	}
	info, err := readInfo(dataDir)
	if err != nil {
		return Info{}, false, fault.New(fault.Unavailable, "The daemon on %s is still starting; try again in a moment.", dataDir)
	}
	return info, true, nil
}
