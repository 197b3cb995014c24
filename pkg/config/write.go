package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"kaged.dev/pkg/fault"
)

// Edit changes the configuration at path: change gets the present text, nil for a missing file, and returns the new
// text, which is written completely or not at all. Concurrent edits are serialised. If path is a link, its target is
// changed. The file keeps its mode; a new file and its folder are readable by the operator only.
//
// It fails if change fails, and then writes no byte; with bad_request if the file cannot be read, and with file_io if
// it cannot be written.
func Edit(path string, change func([]byte) ([]byte, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fault.Wrap(err, fault.FileIO, "The folder of %s cannot be made.", path)
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return fault.Wrap(err, fault.FileIO, "The folder of %s cannot be locked.", path)
	}
	defer unlock()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.BadRequest, "The configuration %s cannot be read.", path)
	}
	out, err := change(data)
	if err != nil || string(out) == string(data) {
		return err
	}
	return write(path, out)
}

// lockFolder waits for the folder's lock, which is released when the process ends.
func lockFolder(dir string) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}

func write(path string, data []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".local-*.toml")
	if err != nil {
		return fault.Wrap(err, fault.FileIO, "%s cannot be written.", path)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fault.Wrap(err, fault.FileIO, "%s cannot be written.", path)
	}
	return nil
}
