package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

// DefaultListen is the default listen address of the gateway.
const DefaultListen = "127.0.0.1:7420"

// NoDataDir is the advice to a user without a default data directory.
const NoDataDir = "There is no home to keep data in: set HOME, or name the data directory with --data-dir " +
	"(KAGED_DATA_DIR)."

// DefaultDataDir is the data directory without a flag: KAGED_DATA_DIR, else /var/lib/kaged for root, else kaged under
// $XDG_DATA_HOME (~/.local/share). It is empty for a user without a home.
func DefaultDataDir(getenv func(string) string) string {
	if v := getenv("KAGED_DATA_DIR"); v != "" {
		return v
	}
	if os.Geteuid() == 0 {
		return "/var/lib/kaged"
	}
	return underHome(getenv, "XDG_DATA_HOME", ".local/share", "kaged")
}

// DefaultPath is the configuration without a flag: KAGED_CONFIG, else /etc/kaged/local.toml for root, else
// kaged/local.toml under $XDG_CONFIG_HOME (~/.config). It is empty for a user without a home.
func DefaultPath(getenv func(string) string) string {
	if v := getenv("KAGED_CONFIG"); v != "" {
		return v
	}
	if os.Geteuid() == 0 {
		return "/etc/kaged/local.toml"
	}
	return underHome(getenv, "XDG_CONFIG_HOME", ".config", "kaged/local.toml")
}

// underHome joins name to a folder of the user's: the folder in an XDG variable, else the usual one below the home. It
// returns "" unless one of them is absolute; the working folder, which may be an agent's, does not serve as a home.
func underHome(getenv func(string) string, variable, usual, name string) string {
	if dir := getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, name)
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, usual, name)
	}
	return ""
}

// Resolve returns the real path of one of kaged's own files. It fails with bad_request; see [ownpath.Resolve].
func Resolve(name string) (ownpath.Path, error) {
	p, err := ownpath.Resolve(name)
	if err != nil {
		return p, fault.New(fault.BadRequest, "T%s.", strings.TrimPrefix(err.Error(), "t"))
	}
	return p, nil
}

// fileTwins are the variables with secrets. Each may be given by the name of a file, in NAME_FILE.
var fileTwins = []string{"KAGED_DATABASE_URL", "KAGED_DATABASE_APP_URL", "KAGED_NATS_URL"}

// SecretFiles returns the files named by an environment in place of secrets.
func SecretFiles(getenv func(string) string) (paths []string) {
	for _, name := range fileTwins {
		if path := getenv(name + "_FILE"); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// WithFiles returns an environment in which each variable with a secret may come from a file: KAGED_NATS_URL_FILE
// names a file with the text of KAGED_NATS_URL; white space around it is cut. It fails with bad_request for an
// unreadable or empty file, and if a variable and its twin are both set.
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

// reason returns the text of the system's error without the path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// Or returns the first non-empty value.
func Or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Off reports whether an environment variable is set to 0, false, no or off.
func Off(v string) bool {
	switch strings.ToLower(v) {
	case "0", "false", "no", "off":
		return true
	}
	return false
}

// True reports whether an environment variable is set to 1, true, yes or on.
func True(v string) bool {
	switch strings.ToLower(v) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}
