// Package cage reads a cage policy as the tools need it: what may this agent read, write, reach and use. It enforces
// nothing in the kernel; it answers before a tool acts on the agent's behalf.
package cage

import (
	"path/filepath"
	"slices"
	"strings"

	"kaged.dev/services/tool-runner/internal/core/paths"
)

// Policy is what a caged agent may do. A nil *Policy is no cage: everything is allowed.
type Policy struct {
	// Mounts are the granted paths in the order they were written.
	Mounts []Mount
	// NetAllow are the reachable "host:port" pairs.
	NetAllow []string
	// Seccomp is the system call profile, "default" or "relaxed"; empty means default.
	Seccomp string
	// Capabilities are named rights such as "shell".
	Capabilities []string
	// State, Env and Limits pass through to the sandbox and decide nothing here.
	State  string
	Env    map[string]string
	Limits Limits
}

// Mount grants a path: project:/ or ./ is the project's root, otherwise absolute.
type Mount struct {
	Path     string
	Writable bool
}

// Limits bound what a cage may use; zero is no limit of its own.
type Limits struct {
	MemoryBytes, PIDs, DiskBytes, WalltimeMS int64
	CPU                                      float64
}

// Access is a policy applied to one project: its mounts are real paths.
type Access struct {
	policy *Policy
	mounts []Mount
}

// For returns the access policy grants in the project with this space. A mount that does not exist, or that leaves the
// project by a link although it was written inside, grants nothing.
func For(policy *Policy, space *paths.Space) Access {
	a := Access{policy: policy}
	if policy == nil {
		return a
	}
	for _, m := range policy.Mounts {
		if real, ok := resolve(m.Path, space); ok {
			a.mounts = append(a.mounts, Mount{real, m.Writable})
		}
	}
	return a
}

func resolve(name string, space *paths.Space) (string, bool) {
	inside := strings.TrimPrefix(name, "project:/")
	if inside == name && filepath.IsAbs(name) {
		real, err := filepath.EvalSymlinks(name)
		return real, err == nil
	}
	p, err := space.Resolve("cage.fs", "./"+inside)
	if err != nil || !paths.Below(p.Abs(), space.Root()) {
		return "", false
	}
	return p.Abs(), true
}

// Uncaged reports whether there is no cage.
func (a Access) Uncaged() bool { return a.policy == nil }

// Allows reports whether the cage grants the real path, for writing too if write is set. Where mounts lie in each other the
// deepest decides, and of equals the last, as it is with mounts in the kernel.
func (a Access) Allows(real string, write bool) bool {
	if a.policy == nil {
		return true
	}
	best := -1
	for i, m := range a.mounts {
		if paths.Below(real, m.Path) && (best < 0 || len(m.Path) >= len(a.mounts[best].Path)) {
			best = i
		}
	}
	return best >= 0 && (!write || a.mounts[best].Writable)
}

// Touches reports whether some granted path lies at, above or below the real path, so that a search there can find
// something.
func (a Access) Touches(real string) bool {
	return a.Allows(real, false) || slices.ContainsFunc(a.mounts, func(m Mount) bool { return paths.Below(m.Path, real) })
}

// Anywhere reports whether the cage grants any path at all, for writing too if write is set.
func (a Access) Anywhere(write bool) bool {
	return a.policy == nil || slices.ContainsFunc(a.mounts, func(m Mount) bool { return m.Writable || !write })
}

// Seccomp returns the system call profile, "" for none.
func (a Access) Seccomp() string {
	if a.policy == nil {
		return ""
	}
	if a.policy.Seccomp == "" {
		return "default"
	}
	return a.policy.Seccomp
}

// Reaches reports whether the cage allows a connection to "host:port".
func (a Access) Reaches(target string) bool {
	return a.policy == nil || slices.Contains(a.policy.NetAllow, target)
}

// Has reports whether the cage grants a named capability.
func (a Access) Has(capability string) bool {
	return a.policy == nil || slices.Contains(a.policy.Capabilities, capability)
}

// Summary describes the policy in one line for the record.
func (p *Policy) Summary() string {
	if p == nil {
		return "none"
	}
	var b strings.Builder
	b.WriteString("fs")
	if len(p.Mounts) == 0 {
		b.WriteString(" none")
	}
	for i, m := range p.Mounts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(map[bool]string{true: " rw ", false: " ro "}[m.Writable] + m.Path)
	}
	list := func(name string, values []string) {
		b.WriteString("; " + name + " ")
		if len(values) == 0 {
			values = []string{"none"}
		}
		b.WriteString(strings.Join(values, ", "))
	}
	list("net", p.NetAllow)
	list("seccomp", []string{Access{policy: p}.Seccomp()})
	list("capabilities", p.Capabilities)
	return b.String()
}
