package core

import (
	"context"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
)

// Boxes makes the kernel-enforced boxes that cages are.
type Boxes interface {
	// Open makes a box and returns when commands can be started in it. attempt is told what is tried on the network, one call
	// at a time; it must not block. Open fails with cage_policy_invalid if a path cannot be granted, and with cage_unavailable
	// naming the layer that this machine cannot give. ctx bounds the making.
	Open(ctx context.Context, spec BoxSpec, attempt func(contract.Attempt)) (Box, error)
	// Probe tries what the machine gives, once, by making a box; later calls return what the first found.
	Probe(ctx context.Context) Report
}

// BoxSpec describes a box.
type BoxSpec struct {
	// ID is a ULID.
	ID string
	// View is what the box allows.
	View *cage.View
	// State names what is kept for the next box of the same agent, where View.Persistent: a file name, the same for the same
	// project and agent.
	State string
}

// Box is a box. Its methods may be called by many at once.
type Box interface {
	// Spawner starts commands in it. Beyond its contract it fails with cage_unavailable when the box is gone.
	Spawner
	// Tier is how it is enforced: "userns" or "setuid".
	Tier() string
	// BestEffort says what of its limits is held by watching, each a sentence.
	BestEffort() []string
	// Gone is closed when the box is gone with everything in it, for whatever reason.
	Gone() <-chan struct{}
	// Why says why it is gone, after Gone: ReasonNone if Close was called, ReasonDisk if it wrote more than its limit, ReasonLost
	// if its init went away. A limit of memory or processes does not end the box; what hit it ends with End.Hit.
	Why() contract.Reason
	// Terminate asks everything in it to end.
	Terminate()
	// Close kills everything in it and returns when it is gone, with what it held outside: folders, cgroups, stubs.
	Close()
	// Usage says what everything in it uses now, and how many processes it has.
	Usage() (usage Usage, processes int)
}

// Report is what a machine gives to cages.
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
	// By is what enforces it, Reason why it is not enforced, Fix the command or setting that mends it.
	By, Reason, Fix string
}
