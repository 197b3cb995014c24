// Package env builds the environment of every process started by a tool. There is only one builder, so that secrets are
// withheld in one place.
package env

import (
	"maps"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
)

// Allowed are the variables that a process inherits from kaged's environment if they are set. No other variables are
// inherited.
var Allowed = [...]string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR", "TZ"}

// own are the allowed variables for which a cage has its own values, or which have no use in a cage.
var own = [...]string{"HOME", "USER", "SHELL", "TMPDIR"}

// Caged is Build for a command in a cage: it omits variables about kaged's user and folders, because the cage has its
// own.
func Caged(lookup func(string) (string, bool), declared map[string]string) map[string]string {
	return Build(func(name string) (string, bool) {
		if slices.Contains(own[:], name) {
			return "", false
		}
		return lookup(name)
	}, declared)
}

// Build returns the allowed variables known to lookup, overlaid with the variables declared for this process. Declared
// values are not expanded.
func Build(lookup func(string) (string, bool), declared map[string]string) map[string]string {
	vars := make(map[string]string, len(Allowed)+len(declared))
	for _, name := range Allowed {
		if value, ok := lookup(name); ok {
			vars[name] = value
		}
	}
	maps.Copy(vars, declared)
	return vars
}

// maxBytes limits declared variables together; the system accepts no longer variable.
const maxBytes = 128 << 10

// Check refuses declared variables that the system does not support, with invalid_params for the parameter field.
func Check(field string, declared map[string]string, limit int) error {
	if len(declared) > limit {
		return fault.New(fault.InvalidParams, "%s has %d entries; at most %d are allowed.", field, len(declared), limit).
			With("field", field)
	}
	total := 0
	for name, value := range declared {
		total += len(name) + len(value)
		switch {
		case total > maxBytes:
			return fault.New(fault.InvalidParams, "%s has more than %d bytes; put long values into a file.", field, maxBytes).
				With("field", field)
		case name == "":
			return fault.New(fault.InvalidParams, "A name in %s is empty.", field).With("field", field)
		case strings.ContainsAny(name, "=\x00"):
			return fault.New(fault.InvalidParams, "The name %.80q in %s holds a = or a NUL.", name, field).
				With("field", field+"."+name)
		case strings.ContainsRune(value, 0):
			return fault.New(fault.InvalidParams, "The value of %.80q in %s holds a NUL.", name, field).
				With("field", field+"."+name)
		}
	}
	return nil
}
