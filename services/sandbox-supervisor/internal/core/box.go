package core

import (
	"context"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
)

// Boxes makes the kernel-enforced boxes that cages are.
type Boxes interface {
	// Open creates a box and returns once it accepts commands. attempt receives network attempts, one call at a time;
	// it must not block. Open fails with cage_policy_invalid if a path cannot be granted, and with cage_unavailable
	// naming the layer that this machine lacks. ctx bounds the creation.
	Open(ctx context.Context, spec BoxSpec, attempt func(contract.Attempt)) (Box, error)
	// Probe finds the capabilities of this machine by creating a box, once; later calls return the first result.
	Probe(ctx context.Context) Report
}

// BoxSpec describes a box.
type BoxSpec struct {
	// ID is a ULID.
	ID string
	// View is the box's policy: its files, network and limits.
	View *cage.View
	// State is the file name of the persistent state, where View.Persistent. Boxes of one
	// agent in one project share it.
	State string
	// Checked, unless nil, is called when the policy can be enforced as far as is known and its paths are open, which is
	// before a process is started. It may be called again if the box is tried anew.
	Checked func()
}

// Box is a box. Its methods may be called by many at once.
type Box interface {
	// Spawner starts commands in it. Beyond its contract it fails with cage_unavailable when the box is gone.
	Spawner
	// Tier is how it is enforced: "userns" or "setuid".
	Tier() string
	// BestEffort lists the limits that are enforced by polling, one sentence each.
	BestEffort() []string
	// Gone is closed when the box and all its processes have ended, for any reason.
	Gone() <-chan struct{}
	// Why returns the reason of the end, after Gone: ReasonNone after Close, ReasonDisk above the disk limit,
	// ReasonLost after the loss of its init. A memory or process limit does not end the box; the command that
	// hit it ends with End.Hit.
	Why() contract.Reason
	// Terminate asks everything in it to end.
	Terminate()
	// Close kills all processes in the box and returns when they and the box's folders, cgroups and stubs are gone.
	Close()
	// Usage returns the current usage of the box and its number of processes.
	Usage() (usage Usage, processes int)
}

// Report is a machine's capabilities for cages.
type Report struct {
	// Tier is "userns", "setuid", or "" where there can be no cages; Unavailable says why then.
	Tier, Unavailable string
	Layers            []Layer
}

// Layer is one thing cages are made of.
type Layer struct {
	// Name is such as "user namespaces" or "limits.memory".
	Name string
	// State is "enforced", "best_effort" or "missing".
	State string
	// By is the mechanism of an enforced layer, Reason the cause of a missing one, Fix the command
	// or setting that enables it.
	By, Reason, Fix string
}
