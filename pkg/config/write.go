package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"kaged.dev/pkg/fault"
)

// Write replaces the configuration, whole or not at all, keeping its mode; a new one, and its folder, are the
// operator's alone.
func Write(path string, data []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fault.Wrap(err, fault.FileIO, "The folder of %s cannot be made.", path)
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
