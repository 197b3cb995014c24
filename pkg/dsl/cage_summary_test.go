package dsl

import (
	"testing"
	"time"
)

// The summary has the grants of a policy in one line.
func TestSummary(t *testing.T) {
	for want, policy := range map[string]*Cage{
		"none": nil, "fs none; net none; seccomp default; capabilities none": {},
		"fs rw ./src, ro /usr; net a:1, b:2; seccomp relaxed; capabilities shell": {
			FS: []Mount{{Mode: "rw", Path: "./src"}, {Mode: "ro", Path: "/usr"}}, Net: []string{"a:1", "b:2"},
			Seccomp: "relaxed", Capabilities: []string{"shell"},
		},
	} {
		if got := policy.Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Limits are shown in the unit, binary or decimal, that gives the smallest whole number.
func TestUnits(t *testing.T) {
	for want, n := range map[string]int64{
		"0 bytes": 0, "1 byte": 1, "999 bytes": 999, "1KB": 1000, "1KiB": 1 << 10, "512MiB": 512 << 20, "1536MiB": 3 << 29,
		"2GiB": 2 << 30, "2GB": 2e9, "1500MB": 15e8,
		"3TB": 3e12, "1TiB": 1 << 40, "1000KiB": 1000 << 10, "1025 bytes": 1025,
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for want, d := range map[string]time.Duration{
		"1h30m": 90 * time.Minute, "1h": time.Hour, "10m": 10 * time.Minute, "1m30s": 90 * time.Second, "2s": 2 * time.Second,
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
