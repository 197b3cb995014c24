package sandbox

import (
	"context"
	"fmt"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Cages makes cages. It is safe for concurrent use.
type Cages interface {
	// Hold opens a cage and holds it until ctx ends or the cage ends; in both cases it returns nil. event is called from
	// one goroutine at a time, first with Opened; its error is returned by Hold. Hold fails with cage_policy_invalid and
	// cage_unavailable if the cage cannot be made, and with unavailable if the supervisor cannot be reached or was lost.
	Hold(ctx context.Context, spec contract.CageSpec, event func(contract.CageEvent) error) error
	// Release ends a hold, as the end of Hold's ctx does. It returns the cage's findings when the cage has ended, or at
	// once if background processes keep it. It fails with unavailable.
	Release(ctx context.Context, id, session string) ([]contract.Finding, error)
}

// Inventory lists the running cages and commands.
type Inventory interface {
	// Running returns the cages and commands of a session, or all for "", the oldest first. It fails with unavailable.
	Running(ctx context.Context, session string) (contract.Running, error)
	// SignalRunning sends a signal, by a name such as SIGINT, to the process group of a command of a session. It fails
	// with process_not_found if the session has no such running command, and with process_ended, invalid_params and
	// unavailable.
	SignalRunning(ctx context.Context, session, id, name string) error
}

// Explain returns the reason why a cage with this policy ended a command, with the remedy; empty for reasons that do
// not come from a cage.
func Explain(r contract.Reason, policy *dsl.Cage) string {
	var limits dsl.Limits
	if policy != nil {
		limits = policy.Limits
	}
	switch r {
	case contract.ReasonOOM:
		return "The command was killed because the agent's cage ran out of memory" + limited("memory", size(limits.Memory)) +
			". Do it with less at once, or ask the operator to raise the limit."
	case contract.ReasonPIDs:
		return "The command was killed because the agent's cage reached its limit of processes and threads" +
			limited("pids", number(limits.PIDs)) +
			". Run fewer side by side, or ask the operator to raise the limit."
	case contract.ReasonWalltime:
		return "The command was ended because the agent's time is over" + limited("walltime", duration(limits.Walltime)) +
			". Its cage is gone; the operator can raise the limit."
	case contract.ReasonDisk:
		return "The command was killed because the agent's cage wrote more than it may" + limited("disk", size(limits.Disk)) +
			". Its cage is gone; what was written stays."
	case contract.ReasonSeccomp:
		return "The command was killed for a system call that no program of this machine's kind makes. It is of another " +
			"architecture, or tries to get around the cage."
	}
	return ""
}

// limited names the limit, if its value is known.
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
