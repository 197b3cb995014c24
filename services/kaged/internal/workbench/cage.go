package workbench

import (
	"cmp"
	"context"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/ownpath"
)

// Cage is the set of rights of an agent of the project, before any run.
type Cage struct {
	// Project is the project's slug, Root its folder, Agent the tree path of the agent.
	Project string `json:"project"`
	Root    string `json:"root"`
	Agent   string `json:"agent"`
	// Caged is true if the agent has a cage; otherwise all fields after it are empty.
	Caged bool `json:"caged"`
	// May names, in one sentence, the files and hosts that the agent can read, write and reach. Summary has the grants of
	// its cage as written.
	May     string `json:"may"`
	Summary string `json:"summary"`
	// Says describes the cage in plain words, one fact per line.
	Says []cage.Line `json:"says"`
	// Grants are the visible paths.
	Grants []Grant `json:"grants"`
	// Net are the rules for reachable hosts, in the common form of all rules.
	Net []string `json:"net"`
	// Seccomp is default or relaxed, State ephemeral or persistent.
	Seccomp      string            `json:"seccomp"`
	State        string            `json:"state"`
	Capabilities []string          `json:"capabilities"`
	Env          map[string]string `json:"env"`
	Limits       CageLimits        `json:"limits"`
	// Warnings are warnings about the project, one sentence each.
	Warnings []string `json:"warnings"`
}

// Grant is a path that can be seen in a cage.
type Grant struct {
	Path string `json:"path"`
	// Mode is ro or rw, Kind is file or folder.
	Mode string `json:"mode"`
	Kind string `json:"kind"`
	// Why is "policy"; "protected" for files that make tools outside the cage run code, and "missing" for such a
	// path without a file; "pinned" for a folder that leads to a read-only entry.
	Why string `json:"why"`
}

// CageLimits are a cage's limits; 0 is unlimited.
type CageLimits struct {
	MemoryBytes int64   `json:"memory_bytes"`
	CPU         float64 `json:"cpu"`
	PIDs        int64   `json:"pids"`
	DiskBytes   int64   `json:"disk_bytes"`
	WalltimeMS  int64   `json:"walltime_ms"`
}

// Cage returns the rights of an agent, "" for the root. No cage can grant kaged's own folders, dataDir included. It
// fails as [Bench.Explain] does, and with cage_policy_invalid if the cage names an ungrantable path.
func (b *Bench) Cage(ctx context.Context, agent string, dataDir ownpath.Path) (Cage, error) {
	if project, err := b.HasProject(ctx); err != nil || !project {
		if err == nil {
			err = b.noProject(cmp.Or(agent, rootAgent))
		}
		return Cage{}, err
	}
	explained, warnings, err := b.Explain(ctx, agent)
	if err != nil {
		return Cage{}, err
	}
	policy := explained.Agent.Cage
	c := Cage{
		Project: explained.Project, Root: b.root, Agent: explained.Agent.Path, Caged: policy != nil, Says: []cage.Line{},
		Grants: []Grant{}, Net: []string{},
		Capabilities: []string{}, Env: map[string]string{}, Warnings: append([]string{}, warnings...),
	}
	if policy == nil {
		return c, nil
	}
	own, err := b.own(dataDir)
	if err != nil {
		return Cage{}, err
	}
	view, err := cage.Compile(policy, b.root, cage.Forbidden(own...))
	if err != nil {
		return Cage{}, err
	}
	c.Root, c.May, c.Summary, c.Says = view.Root, view.May(), policy.Summary(), view.Describe()
	for _, g := range view.Grants {
		c.Grants = append(c.Grants, grantOf(g))
	}
	for _, r := range view.Net {
		c.Net = append(c.Net, r.String())
	}
	c.Seccomp, c.State, c.Capabilities = policy.SystemCalls(), policy.State, append(c.Capabilities, view.Capabilities...)
	for name, value := range view.Env {
		c.Env[name] = value
	}
	l := view.Limits
	c.Limits = CageLimits{
		MemoryBytes: l.Memory,
		CPU:         l.CPU,
		PIDs:        l.PIDs,
		DiskBytes:   l.Disk,
		WalltimeMS:  l.Walltime.Milliseconds(),
	}
	return c, nil
}

func grantOf(g cage.Grant) Grant {
	out := Grant{Path: g.Path, Mode: "ro", Kind: "file", Why: "policy"}
	if g.Writable {
		out.Mode = "rw"
	}
	if g.Dir {
		out.Kind = "folder"
	}
	switch {
	case g.Missing:
		out.Why = "missing"
	case g.Protected:
		out.Why = "protected"
	case g.Pinned:
		out.Why = "pinned"
	}
	return out
}
