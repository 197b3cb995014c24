package config

import (
	"os"
	"regexp"
)

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Expand replaces each "${NAME}" in s by the environment's value and returns the names of unset and empty variables.
func Expand(s string) (expanded string, missing []string) {
	expanded = reference.ReplaceAllStringFunc(s, func(ref string) string {
		name := ref[2 : len(ref)-1]
		value := os.Getenv(name)
		if value == "" {
			missing = append(missing, name)
		}
		return value
	})
	return expanded, missing
}
