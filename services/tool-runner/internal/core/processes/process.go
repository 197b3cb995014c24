package processes

import (
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/sandbox"
)

// Status is the state of a process.
type Status string

// The statuses.
const (
	Running Status = "running"
	Exited  Status = "exited"
	// Lost is a process with an unknown end: it was ended with the service that ran it.
	Lost Status = "lost"
)

// Reason is the cause of an end from outside the process.
type Reason string

// The reasons; empty is a process that ended by itself or by a signal.
const (
	TimedOut     Reason = "timeout"
	Killed       Reason = "killed"
	SessionEnded Reason = "session_ended"
	// The limits of its agent's cage that ended it.
	OutOfMemory      Reason = "oom"
	TooManyProcesses Reason = "pids"
	OutOfTime        Reason = "walltime"
	DiskFull         Reason = "disk"
	BadSystemCall    Reason = "seccomp"
)

// Process is an entry of the table. Times are milliseconds since the Unix epoch.
type Process struct {
	// ID is a ULID; Session, Run and Call say which call started it, Agent the tree path of the agent that made it.
	ID      string `json:"id"`
	Session string `json:"-"`
	Run     string `json:"run"`
	Call    string `json:"call"`
	Agent   string `json:"agent"`
	// Command and Cwd are as people are shown them. Terminal says that it has one.
	Command  string `json:"command"`
	Cwd      string `json:"cwd"`
	Terminal bool   `json:"terminal"`
	// Timeout is how long it may run.
	Timeout   time.Duration `json:"timeout"`
	StartedAt int64         `json:"started_at"`

	Status Status `json:"status"`
	// ExitCode, Signal, Reason and EndedAt are about one that exited. ExitCode is 137 for one that ran out of its time.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	Reason   Reason `json:"reason,omitempty"`
	EndedAt  int64  `json:"ended_at,omitempty"`
	// Shown is up to which byte of its output polls have shown it, as far as it is certain that they were answered.
	Shown int64 `json:"shown"`

	// Start and End say which bytes of its output are kept, by the host's last word.
	Start int64 `json:"-"`
	End   int64 `json:"-"`
	// Unread is how many bytes no poll has shown yet.
	Unread int64 `json:"-"`
	// News marks a known end reported for the first time.
	News bool `json:"news,omitempty"`
}

// exit notes how the process ended. now is when that was learned.
func (p *Process) exit(e contract.Exit, now time.Time) {
	if e.Reason == contract.ReasonLost {
		p.lose(now)
		return
	}
	p.Status, p.ExitCode, p.Signal = Exited, e.Code, e.Signal
	p.EndedAt = p.StartedAt + e.Duration.Milliseconds()
	switch e.Reason {
	case contract.ReasonTimeout:
		p.Reason, p.ExitCode = TimedOut, sandbox.KilledCode
	case contract.ReasonCancelled:
		p.Reason = Killed
	case contract.ReasonOwnerEnded:
		p.Reason = SessionEnded
	default:
		p.Reason = Reason(e.Reason.Word())
	}
}

// lose marks that the end of the process is unknown.
func (p *Process) lose(now time.Time) { p.Status, p.EndedAt = Lost, now.UnixMilli() }

// visible reports whether an agent may see and handle the process: its own, or one of an agent below it.
func (p *Process) visible(agent string) bool {
	return p.Agent == agent || agent != "" && strings.HasPrefix(p.Agent, agent+".")
}
