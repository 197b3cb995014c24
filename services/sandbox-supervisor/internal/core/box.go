package core

import (
	"context"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
)

// Boxes creates the kernel-enforced cages.
type Boxes interface {
	// Open creates a cage and returns once it accepts commands. attempt receives network attempts, one call at a time; it
	// must not block. Open fails with cage_policy_invalid if a path cannot be granted, and with cage_unavailable that
	// names the layer that this machine lacks. ctx limits the creation.
	Open(ctx context.Context, spec BoxSpec, attempt func(contract.Attempt)) (Box, error)
	// Probe finds the capabilities of this machine by creating a cage, once; later calls return the first result.
	Probe(ctx context.Context) Report
}

// BoxSpec describes a kernel-enforced cage.
type BoxSpec struct {
	// ID is a ULID.
	ID string
	// View is its policy: files, network and limits.
	View *cage.View
	// State is the file name of the persistent state, if View.Persistent. Cages of one agent in one project share it.
	State string
	// Checked, unless nil, is called when the policy can be enforced and its paths are open, before a process is started.
	// It may be called again if the creation is repeated.
	Checked func()
}

// Box is a kernel-enforced cage. Its methods may be called from any goroutine.
type Box interface {
	// Spawner starts commands in it. Besides its own errors it fails with cage_unavailable when the cage is gone.
	Spawner
	// Tier is the kind of enforcement: "userns" or "setuid".
	Tier() string
	// BestEffort lists the limits that are enforced by polling, one sentence each.
	BestEffort() []string
	// Gone is closed when the cage and all its processes have ended, for any reason.
	Gone() <-chan struct{}
	// Why returns the reason of the end, after Gone: ReasonNone after Close, ReasonDisk above the disk limit, ReasonLost
	// after the loss of its init. A memory or process limit does not end the cage; the command that reached it ends with
	// End.Hit.
	Why() contract.Reason
	// Terminate asks all processes in it to end.
	Terminate()
	// Close kills all processes in the cage and returns when they and the cage's folders, cgroups and stubs are gone.
	Close()
	// Usage returns the current usage of the cage and its number of processes.
	Usage() (usage Usage, processes int)
}

// Report is a machine's capabilities for cages.
type Report struct {
	// Tier is "userns", "setuid", or "" without support for cages; Unavailable is then the reason.
	Tier, Unavailable string
	Layers            []Layer
}

// Layer is one part of the enforcement of cages.
type Layer struct {
	// Name is its name, such as "user namespaces" or "limits.memory".
	Name string
	// State is "enforced", "best_effort" or "missing".
	State string
	// By is the mechanism of an enforced layer, Reason the cause of a missing one, Fix the command
	// or setting that enables it.
	By, Reason, Fix string
}
