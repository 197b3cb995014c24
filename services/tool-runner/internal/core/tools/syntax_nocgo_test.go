//go:build !cgo

package tools_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
)

// In a build without cgo the structural tools exist, and their error names cgo.
func TestStructuralToolsWithoutCgo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("a.go", "package a\n")
	for name, params := range map[string]in{
		"search.ast": {"pattern": "f($A)", "lang": "go"},
		"edit.ast":   {"rewrites": map[string]string{"f($A)": "g($A)"}, "lang": "go"},
	} {
		if f := b.fails(fault.Unavailable, name, params); !strings.Contains(f.Error(), "without cgo") {
			t.Errorf("%s: %v", name, f)
		}
	}
}
