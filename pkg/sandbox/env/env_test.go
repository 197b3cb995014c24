package env_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox/env"
)

// A process gets the allowed variables that are set, overlaid with the declared ones (T-ENV-01, -02, -04).
func TestBuild(t *testing.T) {
	t.Parallel()
	own := map[string]string{
		"PATH": "/bin", "HOME": "/h", "USER": "u", "LANG": "C", "TERM": "xterm", "SHELL": "/bin/sh", "TMPDIR": "/tmp",
		"TZ":     "UTC",
		"SECRET": "s", "KAGED_TOKEN": "t", "path": "no", "LD_PRELOAD": "evil.so",
	}
	lookup := func(name string) (string, bool) { v, ok := own[name]; return v, ok }
	want := map[string]string{
		"PATH": "/bin", "HOME": "/h", "USER": "u", "LANG": "C", "TERM": "xterm", "SHELL": "/bin/sh", "TMPDIR": "/tmp",
		"TZ": "Mars", "FOO": "${SECRET}",
	}
	if got := env.Build(lookup, map[string]string{"TZ": "Mars", "FOO": "${SECRET}"}); !maps.Equal(got, want) {
		t.Errorf("built %v", got)
	}
}

// Variables that the system does not support are refused by name (T-SHELL-14).
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, bad := range []map[string]string{
		{"": "x"},
		{"A=B": "x"},
		{"A\x00": "x"},
		{"A": "\x00"},
		{"A": "", "B": "", "C": ""},
		{"A": strings.Repeat("x", 70<<10), "B": strings.Repeat("x", 70<<10)},
	} {
		if err := env.Check("env", bad, 2); !errors.Is(err, fault.InvalidParams) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := env.Check("env", map[string]string{"A": "", "b-c": "x=y"}, 2); err != nil {
		t.Error(err)
	}
}
