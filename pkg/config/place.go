package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kaged.dev/pkg/fault"
)

// DefaultListen is where the gateway listens.
const DefaultListen = "127.0.0.1:7420"

// DefaultDataDir is the data directory where nothing else is said: KAGED_DATA_DIR, else /var/lib/kaged for root, else
// kaged under $XDG_DATA_HOME (~/.local/share).
func DefaultDataDir(getenv func(string) string) string {
	if v := getenv("KAGED_DATA_DIR"); v != "" {
		return v
	}
	if os.Geteuid() == 0 {
		return "/var/lib/kaged"
	}
	return filepath.Join(Or(getenv("XDG_DATA_HOME"), filepath.Join(getenv("HOME"), ".local", "share")), "kaged")
}

// DefaultPath is the configuration where nothing else is said: KAGED_CONFIG, else /etc/kaged/local.toml for root, else
// kaged/local.toml under $XDG_CONFIG_HOME (~/.config).
func DefaultPath(getenv func(string) string) string {
	if v := getenv("KAGED_CONFIG"); v != "" {
		return v
	}
	if os.Geteuid() == 0 {
		return "/etc/kaged/local.toml"
	}
	return filepath.Join(Or(getenv("XDG_CONFIG_HOME"), filepath.Join(getenv("HOME"), ".config")), "kaged", "local.toml")
}

// fileTwins are the variables that may be given as the name of a file, in NAME_FILE: those that hold secrets.
var fileTwins = []string{"KAGED_DATABASE_URL", "KAGED_DATABASE_APP_URL", "KAGED_NATS_URL"}

// WithFiles returns an environment in which each of the variables that hold secrets may come from a file: KAGED_NATS_URL_FILE names
// the file whose text, without white space around it, is KAGED_NATS_URL. It fails with bad_request where a file cannot be read or is
// empty, and where a variable and its twin are both set.
func WithFiles(getenv func(string) string) (func(string) string, error) {
	read := map[string]string{}
	for _, name := range fileTwins {
		path := getenv(name + "_FILE")
		if path == "" {
			continue
		}
		if getenv(name) != "" {
			return nil, fault.New(fault.BadRequest, "%s and %s_FILE are both set; unset one of them.", name, name)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fault.Wrap(err, fault.BadRequest, "%s_FILE names %s, which cannot be read: %s.", name, path, reason(err))
		}
		if read[name] = strings.TrimSpace(string(data)); read[name] == "" {
			return nil, fault.New(fault.BadRequest, "%s_FILE names %s, which is empty.", name, path)
		}
	}
	return func(name string) string {
		if v := read[name]; v != "" {
			return v
		}
		return getenv(name)
	}, nil
}

// reason returns the system's words without the path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// Or returns the first that is not empty.
func Or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// True reports whether an environment variable says yes: 1, true, yes or on.
func True(v string) bool {
	switch strings.ToLower(v) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}
