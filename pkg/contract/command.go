package contract

import (
	"time"

	"kaged.dev/pkg/dsl"
)

// Reason is the reason for ending a command or a cage from outside.
type Reason int

// The reasons. The first is for a command that ended by itself or by its own signal.
const (
	ReasonNone Reason = iota
	// ReasonTimeout: the command exceeded its time limit.
	ReasonTimeout
	// ReasonCancelled: the command's caller is gone.
	ReasonCancelled
	// ReasonOwnerEnded: the command's session has ended.
	ReasonOwnerEnded
	// ReasonLost: the supervisor, shim or cage is gone.
	ReasonLost
	// ReasonOOM: the command was killed because its cage ran out of memory.
	ReasonOOM
	// ReasonPIDs: the command was killed because its cage reached its limit of processes and threads.
	ReasonPIDs
	// ReasonWalltime: the time of the cage, which is that of the agent's invocation, is over.
	ReasonWalltime
	// ReasonDisk: the cage wrote more than its limit of disk space.
	ReasonDisk
	// ReasonSeccomp: the command was killed for a system call that no program for this machine's architecture makes.
	ReasonSeccomp
)

var reasonWords = map[Reason]string{
	ReasonOOM: "oom", ReasonPIDs: "pids", ReasonWalltime: "walltime", ReasonDisk: "disk", ReasonSeccomp: "seccomp",
}

// Word is the name of a cage's reason: oom, pids, walltime, disk or seccomp. It is empty for the other reasons.
func (r Reason) Word() string { return reasonWords[r] }

// ReasonOf returns the reason with this name, [ReasonNone] for an unknown name.
func ReasonOf(word string) Reason {
	for reason, known := range reasonWords {
		if known == word {
			return reason
		}
	}
	return ReasonNone
}

// EndsCage reports whether this reason ends a caged command together with its cage.
func (r Reason) EndsCage() bool { return r == ReasonWalltime || r == ReasonDisk || r == ReasonLost }

// Exit is the end of a command.
type Exit struct {
	// Code is its exit code, or 128 plus the signal that ended it.
	Code int
	// Signal is the name of the signal that ended it.
	Signal string
	// Reason is the reason for ending it from outside, if any.
	Reason Reason
	// Started is true if the command ran. It is not sent.
	Started bool
	// Duration is the running time.
	Duration time.Duration
	// Found lists the findings in the writable folders of the cage, if the cage was made for this command only.
	Found []Finding
}

// Process is a command in the supervisor's list.
type Process struct {
	RunningProcess
	// Exit is the end of a background process, nil while it runs.
	Exit *Exit
	// OutputStart and OutputEnd are the range of retained bytes in the output of a background process.
	OutputStart, OutputEnd int64
}

// CageSpec describes the cage of an agent's invocation.
type CageSpec struct {
	// ID is a ULID chosen by the caller.
	ID    string
	Owner Owner
	// Policy is the policy of the cage for the project at Root.
	Policy *dsl.Cage
	Root   string
	// TellChecked asks for an event once the policy is checked, before the event of the opened cage.
	TellChecked bool
}
