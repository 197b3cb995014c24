// Package env builds the environment of every process a tool starts. There is one builder, so that there is one place a
// secret could slip through.
package env

import (
	"maps"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
)

// Allowed are the variables a process gets from kaged's own environment, where they are set. Other variables are
// not inherited.
var Allowed = [...]string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR", "TZ"}

// own are those of the allowed variables that a cage has values of its own for, or that make no sense in one.
var own = [...]string{"HOME", "USER", "SHELL", "TMPDIR"}

// Caged is Build for a command in a cage: variables about kaged's own user and folders stay out, because the cage
// has its own.
func Caged(lookup func(string) (string, bool), declared map[string]string) map[string]string {
	return Build(func(name string) (string, bool) {
		if slices.Contains(own[:], name) {
			return "", false
		}
		return lookup(name)
	}, declared)
}

// Build returns the allowed variables lookup knows, overlaid with those declared for this process. Declared values
// are taken as they are, without expansion.
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

// maxBytes bounds declared variables together. The system takes no longer one.
const maxBytes = 128 << 10

// Check refuses declared variables the system cannot hold, with invalid_params about the parameter field.
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
