package config

import (
	"os"
	"path/filepath"
	"strings"
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
