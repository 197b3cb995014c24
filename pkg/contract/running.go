package contract

import (
	"strings"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Running is the list of commands and cages of a workspace.
type Running struct {
	Processes []RunningProcess
	Cages     []RunningCage
}

// RunningProcess is a command that runs. Its owner's call is not told.
type RunningProcess struct {
	ID    string
	Owner Owner
	// CageID is empty for a command outside of cages.
	CageID  string
	PID     int64
	Command string
	// StartedAt is when it started.
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
	// Processes is how many processes are in it.
	Processes int32
}

// Use is the use of resources: resident memory in bytes, and CPU time in milliseconds so far.
type Use struct{ Memory, CPU int64 }

// Proto returns the process as a message.
func (p RunningProcess) Proto() *commonv1.RunningProcess {
	m := &commonv1.RunningProcess{
		Id: p.ID, SessionId: p.Owner.SessionID, ProjectId: p.Owner.ProjectID, RunId: p.Owner.RunID, AgentPath: p.Owner.Agent,
		Pid: p.PID, Command: p.Command, StartedAt: p.StartedAt, MemoryBytes: p.Use.Memory, CpuMs: p.Use.CPU,
		Background: p.Background,
	}
	if p.CageID != "" {
		m.CageId = &p.CageID
	}
	return m
}

// ProcessFromProto is the reverse of [RunningProcess.Proto].
func ProcessFromProto(p *commonv1.RunningProcess) RunningProcess {
	return RunningProcess{
		ID: p.GetId(), CageID: p.GetCageId(), PID: p.GetPid(), Command: p.GetCommand(), StartedAt: p.GetStartedAt(),
		Owner: Owner{
			SessionID: p.GetSessionId(), ProjectID: p.GetProjectId(), RunID: p.GetRunId(), Agent: p.GetAgentPath(),
		},
		Use: Use{Memory: p.GetMemoryBytes(), CPU: p.GetCpuMs()}, Background: p.GetBackground(),
	}
}

// Proto returns the cage as a message.
func (c RunningCage) Proto() *commonv1.RunningCage {
	return &commonv1.RunningCage{
		Id: c.ID, SessionId: c.Owner.SessionID, ProjectId: c.Owner.ProjectID, RunId: c.Owner.RunID, AgentPath: c.Owner.Agent,
		Tier: c.Tier, BestEffort: c.BestEffort, StartedAt: c.StartedAt, MemoryBytes: c.Use.Memory, CpuMs: c.Use.CPU,
		Processes: c.Processes,
	}
}

// CageFromProto is the reverse of [RunningCage.Proto].
func CageFromProto(p *commonv1.RunningCage) RunningCage {
	return RunningCage{
		Cage: Cage{ID: p.GetId(), Tier: p.GetTier(), BestEffort: p.GetBestEffort()}, StartedAt: p.GetStartedAt(),
		Owner: Owner{
			SessionID: p.GetSessionId(), ProjectID: p.GetProjectId(), RunID: p.GetRunId(), Agent: p.GetAgentPath(),
		},
		Use: Use{Memory: p.GetMemoryBytes(), CPU: p.GetCpuMs()}, Processes: p.GetProcesses(),
	}
}

// RunningLanguageServer is a language server that runs, is stopped or gave up.
type RunningLanguageServer struct {
	ID, Lang string
	Command  []string
	// State is starting, indexing, ready, stopped or failed.
	State string
	// PID is 0 for none.
	PID int64
	// Restarts is how often it was started again after a crash, Open how many documents it has open.
	Restarts, Open  int
	ProjectID, Root string
	Caged           bool
	StartedAt       int64
	// Log is the end of its standard error.
	Log string
}

// Proto returns the server as a message.
func (s RunningLanguageServer) Proto() *commonv1.RunningLanguageServer {
	return &commonv1.RunningLanguageServer{
		Id: s.ID, Lang: s.Lang, Command: s.Command, State: s.State, Pid: s.PID, RestartCount: int32(s.Restarts),
		OpenFiles: int32(s.Open), ProjectId: s.ProjectID, Root: s.Root, Caged: s.Caged, StartedAt: s.StartedAt,
		Log: strings.ToValidUTF8(s.Log, "\uFFFD"),
	}
}

// LanguageServersProto returns servers as messages.
func LanguageServersProto(list []RunningLanguageServer) (out []*commonv1.RunningLanguageServer) {
	for _, s := range list {
		out = append(out, s.Proto())
	}
	return out
}

// LanguageServersFromProto is the reverse of [LanguageServersProto].
func LanguageServersFromProto(list []*commonv1.RunningLanguageServer) (out []RunningLanguageServer) {
	for _, p := range list {
		out = append(out, RunningLanguageServer{
			ID: p.GetId(), Lang: p.GetLang(), Command: p.GetCommand(), State: p.GetState(), PID: p.GetPid(),
			Restarts: int(p.GetRestartCount()), Open: int(p.GetOpenFiles()), ProjectID: p.GetProjectId(), Root: p.GetRoot(),
			Caged: p.GetCaged(), StartedAt: p.GetStartedAt(), Log: p.GetLog(),
		})
	}
	return out
}
