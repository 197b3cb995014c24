package command

import (
	"context"
	"fmt"
	"time"

	"kaged.dev/pkg/dsl"
)

// Attempt is a connection or a lookup that something in a cage tried.
type Attempt struct {
	// At is when, in milliseconds since the Unix epoch.
	At int64
	// Target is "host:port", "host" for a lookup, an address where no name was asked for, or "UDP" or "UDP over IPv6" where only that
	// is known.
	Target string
	// Allowed says whether it was let through. Rule is the policy's rule that did, or a sentence with why it was refused.
	Allowed bool
	Rule    string
	// Count is how many of its kind this stands for.
	Count int64
}

// CageSpec describes the cage of an agent's invocation.
type CageSpec struct {
	// ID is what it is to be known by, a ULID.
	ID     string
	Owner  Owner
	Policy *dsl.Cage
	// Root is the project's root, which paths of the policy are relative to.
	Root string
}

// Cage is a cage that is there.
type Cage struct {
	// ID is the one of its spec, or that of a cage of the same agent that was joined.
	ID string
	// Tier is how it is enforced; BestEffort says what of the policy is held by watching, each a sentence.
	Tier       string
	BestEffort []string
	// Notes are what an operator is told of it, each a sentence.
	Notes []string
}

// Finding is something that was made in a cage's writable folders and that may make tools outside run code.
type Finding struct {
	// Kind is a word for what it is, Path where, absolute and "" for none, Text a sentence about it.
	Kind, Path, Text string
}

// CageEvent is what happened to a cage: one of its fields is set.
type CageEvent struct {
	Opened  *Cage
	Network *Attempt
	// Ended says why it has ended, in a word; it is the last. Found is what was found then.
	Ended string
	Found []Finding
}

// Cages makes cages. It is safe for concurrent use.
type Cages interface {
	// Hold makes a cage and holds it until ctx ends, or the cage does: then it returns nil. event is called from one goroutine at a time, first
	// with Opened; what it fails with is what Hold fails with. Hold fails with cage_policy_invalid and cage_unavailable if the
	// cage cannot be made, and with unavailable if nobody can be asked or who held it was lost.
	Hold(ctx context.Context, spec CageSpec, event func(CageEvent) error) error
	// Release lets go of a cage in place of the end of Hold's ctx, and returns what it leaves when it has ended, or at once if
	// background processes keep it. It fails with unavailable.
	Release(ctx context.Context, id, session string) ([]Finding, error)
}

// Running is what runs.
type Running struct {
	Processes []RunningProcess
	Cages     []RunningCage
}

// RunningProcess is a command that runs. Times are milliseconds since the Unix epoch.
type RunningProcess struct {
	ID        string
	Owner     Owner
	CageID    string // empty for none
	PID       int64
	Command   string
	StartedAt int64
	Use       Use
	// Background says that it outlives the call that started it.
	Background bool
}

// RunningCage is a cage that lives.
type RunningCage struct {
	Cage
	Owner     Owner
	StartedAt int64
	Use       Use
	Processes int32
}

// Use is what something uses: resident memory in bytes, and CPU time in milliseconds so far.
type Use struct{ Memory, CPU int64 }

// Inventory knows what runs.
type Inventory interface {
	// Running returns what runs for a session, or for all where it is empty, the oldest first. It fails with unavailable.
	Running(ctx context.Context, session string) (Running, error)
}

// words are how the reasons that are a cage's are called.
var words = map[Reason]string{
	OutOfMemory: "oom", TooManyProcesses: "pids", OutOfTime: "walltime", DiskFull: "disk", BadSystemCall: "seccomp",
}

// Word is what a reason of a cage is called: oom, pids, walltime, disk or seccomp; empty for all others.
func (r Reason) Word() string { return words[r] }

// ReasonOf returns the reason that is called so, None for what is no word of a cage.
func ReasonOf(word string) Reason {
	for reason, known := range words {
		if known == word {
			return reason
		}
	}
	return None
}

// EndsCage reports whether a command in a cage ends for this reason only with its cage.
func (r Reason) EndsCage() bool { return r == OutOfTime || r == DiskFull || r == Lost }

// Explain says why a cage with this policy ended a command and what can be done about it, empty for other reasons.
func (r Reason) Explain(policy *dsl.Cage) string {
	var limits dsl.Limits
	if policy != nil {
		limits = policy.Limits
	}
	switch r {
	case OutOfMemory:
		return "The command was killed because the agent's cage ran out of memory" + limited("memory", size(limits.Memory)) +
			". Do it with less at once, or ask the operator to raise the limit."
	case TooManyProcesses:
		return "The command was killed because the agent's cage reached its limit of processes and threads" + limited("pids", number(limits.PIDs)) +
			". Run fewer side by side, or ask the operator to raise the limit."
	case OutOfTime:
		return "The command was ended because the agent's time is over" + limited("walltime", duration(limits.Walltime)) +
			". Its cage is gone; the operator can raise the limit."
	case DiskFull:
		return "The command was killed because the agent's cage wrote more than it may" + limited("disk", size(limits.Disk)) +
			". Its cage is gone; what was written stays."
	case BadSystemCall:
		return "The command was killed for a system call that no program of this machine's kind makes. It is of another architecture, or tries to get around the cage."
	}
	return ""
}

// limited names the limit, where its value is known.
func limited(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(" (limits.%s is %s)", name, value)
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return dsl.Span(d)
}

func size(n int64) string {
	if n == 0 {
		return ""
	}
	return dsl.Bytes(n)
}
