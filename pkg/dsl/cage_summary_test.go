package dsl

import "testing"

// The summary says what a policy grants in one line.
func TestSummary(t *testing.T) {
	for want, policy := range map[string]*Cage{
		"none": nil, "fs none; net none; seccomp default; capabilities none": {},
		"fs rw ./src, ro /usr; net a:1, b:2; seccomp relaxed; capabilities shell": {
			FS: []Mount{{Mode: "rw", Path: "./src"}, {Mode: "ro", Path: "/usr"}}, Net: []string{"a:1", "b:2"}, Seccomp: "relaxed", Capabilities: []string{"shell"},
		},
	} {
		if got := policy.Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
