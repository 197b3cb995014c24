package contract

import (
	"time"

	"kaged.dev/pkg/dsl"
)

// Reason is why a command or a cage was ended from outside.
type Reason int

// The reasons. The first is a command that ended by itself or by a signal of its own.
const (
	ReasonNone Reason = iota
	// ReasonTimeout is a command that ran out of its time.
	ReasonTimeout
	// ReasonCancelled is the loss of the command's caller.
	ReasonCancelled
	// ReasonOwnerEnded is the end of the command's session.
	ReasonOwnerEnded
	// ReasonLost is the loss of its supervisor, shim or cage.
	ReasonLost
	// ReasonOOM is a command that was killed because its cage ran out of memory.
	ReasonOOM
	// ReasonPIDs is a command that was killed because its cage reached its limit of processes and threads.
	ReasonPIDs
	// ReasonWalltime is the end of the time of its cage, which is that of the agent's invocation.
	ReasonWalltime
	// ReasonDisk is a cage that wrote more than its limit of disk space.
	ReasonDisk
	// ReasonSeccomp is a command that was killed for a system call that no program of this machine's kind makes.
	ReasonSeccomp
)

var reasonWords = map[Reason]string{
	ReasonOOM: "oom", ReasonPIDs: "pids", ReasonWalltime: "walltime", ReasonDisk: "disk", ReasonSeccomp: "seccomp",
}

// Word is the name of a cage's reason: oom, pids, walltime, disk or seccomp. It is empty for all others.
func (r Reason) Word() string { return reasonWords[r] }

// ReasonOf returns the reason of a cage with this name, [ReasonNone] for any other word.
func ReasonOf(word string) Reason {
	for reason, known := range reasonWords {
		if known == word {
			return reason
		}
	}
	return ReasonNone
}

// EndsCage reports whether a command in a cage ends for this reason only with its cage.
func (r Reason) EndsCage() bool { return r == ReasonWalltime || r == ReasonDisk || r == ReasonLost }

// Exit is the end of a command.
type Exit struct {
	// Code is its exit code, or 128 plus the signal that ended it.
	Code int
	// Signal is the name of that signal.
	Signal string
	// Reason is why it was ended, if it was.
	Reason Reason
	// Started says that it ran. It is not sent.
	Started bool
	// Duration is how long it ran.
	Duration time.Duration
	// Found lists the findings in the writable folders of the cage, if the cage was made for this command alone.
	Found []Finding
}

// Process is a command in the supervisor's list.
type Process struct {
	RunningProcess
	// Exit is how a background process ended, nil while it runs.
	Exit *Exit
	// Of the bytes a background process wrote, those from number OutputStart up to OutputEnd are kept.
	OutputStart, OutputEnd int64
}

// CageSpec describes the cage of an agent's invocation.
type CageSpec struct {
	// ID is a ULID that its caller has chosen.
	ID    string
	Owner Owner
	// Policy holds its grants and limits in the project at Root.
	Policy *dsl.Cage
	Root   string
	// TellChecked asks for the event that it is checked, before the one that it is there.
	TellChecked bool
}
