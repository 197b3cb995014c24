// Package cageview reads a cage policy for the tools: the paths, hosts and tools of an agent. It enforces no rule in
// the kernel; it asks the view that cages are made from ([cage.View]) before a tool acts on the agent's behalf, so that
// a tool may do as much as a command in the cage.
package cageview

import (
	"slices"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
)

// Access is a policy made real for one project.
type Access struct {
	policy *dsl.Cage
	view   *cage.View // nil where there is no policy, or err says why there is no view
	err    error
}

// Err says why the policy could not be made real, nil if it could: then no path is granted.
func (a Access) Err() error { return a.err }

// Uncaged reports whether there is no cage.
func (a Access) Uncaged() bool { return a.policy == nil }

// Allows reports whether the cage grants the real path, for writing too if write is set; see [cage.View.Allows].
// A protected name in the path that the policy does not name can be read only.
func (a Access) Allows(real string, write bool) bool {
	if a.policy == nil {
		return true
	}
	if a.view == nil || !a.view.Allows(real, write) {
		return false
	}
	if write {
		_, reserved := a.view.Reserved(real)
		return !reserved
	}
	return true
}

// Protects reports whether the real path could be written if it were not protected, because tools outside the cage
// would use it, and returns the protected place.
func (a Access) Protects(real string) (string, bool) {
	if a.view == nil {
		return "", false
	}
	if g, ok := a.view.Find(real); ok && (g.Protected || !g.Writable) {
		return g.Path, g.Protected
	}
	return a.view.Reserved(real)
}

// GrantsFile reports whether the cage grants just this file: it has the file itself then, also after another took its
// name.
func (a Access) GrantsFile(real string) bool {
	if a.view == nil {
		return false
	}
	g, ok := a.view.Find(real)
	return ok && !g.Dir && !g.Protected
}

// Touches reports whether a granted path lies at, above or below the real path, so that a search there can have
// results.
func (a Access) Touches(real string) bool {
	return a.Allows(real, false) || a.any(func(g cage.Grant) bool { return cage.Below(g.Path, real) })
}

// Anywhere reports whether the cage grants any path at all, for writing too if write is set.
func (a Access) Anywhere(write bool) bool {
	return a.policy == nil || a.any(func(g cage.Grant) bool { return g.Writable || !write })
}

func (a Access) any(grant func(cage.Grant) bool) bool {
	return a.view != nil && slices.ContainsFunc(a.view.Grants, grant)
}

// Seccomp returns the system call profile, "" without one.
func (a Access) Seccomp() string {
	if a.policy == nil {
		return ""
	}
	return a.policy.SystemCalls()
}

// Reaches reports whether the cage allows a connection to "host:port".
func (a Access) Reaches(target string) bool {
	if a.policy == nil {
		return true
	}
	want, err := cage.ParseRule(target)
	return err == nil && slices.ContainsFunc(a.policy.Net, func(text string) bool {
		rule, err := cage.ParseRule(text)
		return err == nil && rule.String() == want.String()
	})
}

// Has reports whether the cage grants a named capability.
func (a Access) Has(capability string) bool {
	return a.policy == nil || slices.Contains(a.policy.Capabilities, capability)
}
