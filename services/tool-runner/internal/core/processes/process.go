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
	// The process exceeded a limit of its agent's cage.
	OutOfMemory      Reason = "oom"
	TooManyProcesses Reason = "pids"
	OutOfTime        Reason = "walltime"
	DiskFull         Reason = "disk"
	BadSystemCall    Reason = "seccomp"
)

// Process is an entry of the table. Times are milliseconds since the Unix epoch.
type Process struct {
	// ID is a ULID. Session, Run and Call are those of the call that started the process. Agent is the tree path of the
	// calling agent.
	ID      string `json:"id"`
	Session string `json:"-"`
	Run     string `json:"run"`
	Call    string `json:"call"`
	Agent   string `json:"agent"`
	// Command and Cwd are in the form shown to people. Terminal is true if the process has a terminal.
	Command  string `json:"command"`
	Cwd      string `json:"cwd"`
	Terminal bool   `json:"terminal"`
	// Timeout is the time limit of the process.
	Timeout   time.Duration `json:"timeout"`
	StartedAt int64         `json:"started_at"`

	Status Status `json:"status"`
	// ExitCode, Signal, Reason and EndedAt describe the end of an exited process. ExitCode is 137 for a process that
	// exceeded its time limit.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	Reason   Reason `json:"reason,omitempty"`
	EndedAt  int64  `json:"ended_at,omitempty"`
	// Shown is the number of the byte up to which polls have returned output in answers that the caller certainly
	// received.
	Shown int64 `json:"shown"`

	// Start and End delimit the kept output, by the host's last answer.
	Start int64 `json:"-"`
	End   int64 `json:"-"`
	// Unread is the number of bytes that no poll has returned yet.
	Unread int64 `json:"-"`
	// News is true in the first report of a known end.
	News bool `json:"news,omitempty"`
}

// exit records the end of the process. now is the time at which the end became known.
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

// lose records that the end of the process is unknown.
func (p *Process) lose(now time.Time) { p.Status, p.EndedAt = Lost, now.UnixMilli() }

// visible reports whether an agent may see and control the process: its own processes, and those of the agents below
// it.
func (p *Process) visible(agent string) bool {
	return p.Agent == agent || agent != "" && strings.HasPrefix(p.Agent, agent+".")
}
