package contract

// Running is the list of commands and cages of a workspace.
type Running struct {
	Processes []RunningProcess
	Cages     []RunningCage
}

// RunningProcess is a running command. Its owner's call is not included.
type RunningProcess struct {
	ID    string
	Owner Owner
	// CageID is empty for a command outside of cages.
	CageID  string
	PID     int64
	Command string
	// StartedAt is its start time.
	StartedAt int64
	Use       Use
	// Background means that it outlives the call that started it.
	Background bool
	// Terminal is true if it has a terminal.
	Terminal bool
}

// RunningCage is a living cage.
type RunningCage struct {
	Cage
	Owner     Owner
	StartedAt int64
	Use       Use
	// Processes is the number of processes in it.
	Processes int32
}

// Use is the use of resources: resident memory in bytes, and CPU time in milliseconds so far.
type Use struct{ Memory, CPU int64 }

//convert:both .Proto ProcessFromProto RunningProcess *commonv1.RunningProcess Owner.SessionID=SessionId
//convert:with Owner.ProjectID=ProjectId Owner.RunID=RunId Owner.Agent=AgentPath Use.Memory=MemoryBytes Use.CPU=CpuMs
//convert:both .Proto CageFromProto RunningCage *commonv1.RunningCage Owner.SessionID=SessionId
//convert:with Owner.ProjectID=ProjectId
//convert:with Owner.RunID=RunId Owner.Agent=AgentPath Use.Memory=MemoryBytes Use.CPU=CpuMs <Notes=- <Summary=-

// RunningLanguageServer is a language server that runs, is stopped or has failed.
type RunningLanguageServer struct {
	ID, Lang string
	Command  []string
	// State is starting, indexing, ready, stopped or failed.
	State string
	// PID is 0 without a process.
	PID int64
	// Restarts is the number of restarts after a crash, Open the number of its open documents.
	Restarts, Open  int
	ProjectID, Root string
	Caged           bool
	StartedAt       int64
	// Log is the end of its standard error.
	Log string
}

//convert:both .Proto LanguageServerFromProto RunningLanguageServer *commonv1.RunningLanguageServer
//convert:with Restarts=RestartCount
//convert:with Open=OpenFiles >string=valid
//convert:both LanguageServersProto LanguageServersFromProto []RunningLanguageServer []*commonv1.RunningLanguageServer
