// Package lease decides which process may write a session.
//
// A session has at most one lease holder at a time. Each takeover raises the epoch, and each write of the holder
// carries it, so the transaction of a write refuses a replaced holder, however late the write comes. A holder keeps
// a lease by renewing it; another process may take a lease that was not renewed for its lifetime. Times are the
// database's, so that the clocks of processes need not agree.
package lease

import "context"

// Holder is a process that holds leases.
type Holder struct {
	// Instance is unique to one start of the process.
	Instance string
	// Node stays the same over restarts on the same data directory, so that a new instance can release the leases of a
	// dead one; see [Store.ReleaseNode].
	Node string
	// Address is the address on which other processes reach this one.
	Address string
}

// Fence is the part of a lease that each write carries.
type Fence struct {
	Session string
	// Holder is the holder's instance.
	Holder string
	Epoch  int64
}

// Taken is a new lease.
type Taken struct {
	Fence
	// Before is the instance of the last holder, "-" if [Store.ReleaseNode] released the lease, and "" if the last holder
	// released it or the lease is the first.
	Before string
}

// First reports whether the session has never had a holder. Only holders write what belongs to a session but its row
// and the messages that it was created with, so nothing else of it is stored.
func (t Taken) First() bool { return t.Epoch == 1 }

// Store stores leases. Lifetimes are in milliseconds.
type Store interface {
	// Take takes the lease of a session unless another process holds it; then it fails with stale_lease. The
	// error's details.holder is the holder's address.
	Take(ctx context.Context, session string, by Holder, lifetime int64) (Taken, error)
	// Renew renews leases of an instance and returns those of the given sessions that it still holds. It does not wait
	// for row locks: a lease that is being changed counts as held until the next renewal.
	Renew(ctx context.Context, instance string, sessions []string, lifetime int64) ([]string, error)
	// Release releases leases. It ignores leases that another process has taken.
	Release(ctx context.Context, list []Fence) error
	// ReleaseNode releases the leases of a node's instances except one, for instances that have died, and returns
	// their number.
	ReleaseNode(ctx context.Context, node, except string) (int64, error)
	// Abandoned returns up to limit sessions without a holder that have an active run, an interrupted run to resume,
	// or an unfinished compaction between runs.
	Held(ctx context.Context, f Fence) error
	// Abandoned returns up to limit sessions that have no holder and either an active run or a run that was handed
	// over.
	Abandoned(ctx context.Context, limit int) ([]string, error)
}
