// Package lease decides which process may write a session.
//
// A session has at most one holder at a time. Each holder has an epoch, larger than those before, and everything it
// writes names it: a write of a holder that was replaced is refused in the transaction itself, however late it
// comes. A lease is kept by renewing it; one that was not renewed for its lifetime may be taken by another process.
// Time is the database's, so that the clocks of processes need not agree.
package lease

import "context"

// Holder is a process that holds leases.
type Holder struct {
	// Instance is unique to one start of the process.
	Instance string
	// Node stays the same over restarts on the same data: leases of an earlier instance can be taken at once.
	Node string
	// Address is where the process can be asked.
	Address string
}

// Fence is a lease as writes name it.
type Fence struct {
	Session string
	// Holder is the instance.
	Holder string
	Epoch  int64
}

// Taken is a lease that was just taken.
type Taken struct {
	Fence
	// Before is the instance that held it last, or "".
	Before string
}

// Store keeps leases. Lifetimes are milliseconds.
type Store interface {
	// Take takes the lease of a session that no other process holds. It fails with stale_lease (details.holder is
	// the holder's address) while one does.
	Take(ctx context.Context, session string, by Holder, lifetime int64) (Taken, error)
	// Renew renews leases of an instance and returns those of the given sessions that it still holds. It waits for
	// no change that is under way; a lease that is being taken counts as held, and the next renewal tells.
	Renew(ctx context.Context, instance string, sessions []string, lifetime int64) ([]string, error)
	// Release gives leases up. A lease that another process has taken is left alone.
	Release(ctx context.Context, list []Fence) error
	// ReleaseNode gives up the leases of a node's instances but one, which have died, and returns how many there were.
	ReleaseNode(ctx context.Context, node, except string) (int64, error)
	// Held fails with stale_lease if another process has taken the lease.
	Held(ctx context.Context, f Fence) error
	// Abandoned returns up to limit sessions that have a run at work, or one that is to go on in another, and no holder.
	Abandoned(ctx context.Context, limit int) ([]string, error)
}
