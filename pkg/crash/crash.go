// Package crash names the points at which a test may kill a process, to prove that acknowledged work survives.
//
// Code calls [At] where the loss of the process would matter. In a normal build At is empty and free. In a build tagged
// faults, KAGED_CRASH_AT names one point at which the process sends itself SIGKILL: no buffer is flushed and no
// deferred call runs. "NAME:N" selects the Nth time the point is reached. A faults build exits at its start if the name
// is not in the list below, so that a misspelt test cannot pass.
//
// KAGED_CRASH_TRAP names a file that is read whenever a point is reached. Its text is a point and a process id: at that
// point the file is removed, and the process with the id is killed, which may be another one. So a test selects points
// and victims while the services run.
package crash

import "slices"

// Point is a point of the list.
type Point string

// The points, in the order of a run.
const (
	// LeaseTaken: this process has just become a session's holder and has not published yet.
	LeaseTaken Point = "lease_taken"
	// MessageStored: an operator's message and its run are committed; the caller has no answer and no frame is out.
	MessageStored Point = "message_stored"
	// RunDispatched: the harness has the whole conversation and the order to begin.
	RunDispatched Point = "run_dispatched"
	// RunReleased: that a run is handed over is committed, and its lease is held.
	RunReleased Point = "run_released"
	// RunAdopted: that a run which was handed over goes on is committed, and its harness was not told to.
	RunAdopted Point = "run_adopted"
	// TurnBeforeStore: the model's turn has arrived and is not committed.
	TurnBeforeStore Point = "turn_before_store"
	// TurnStored: the model's turn is committed and the harness does not know it, so no tool that writes has run.
	TurnStored Point = "turn_stored"
	// ResultsBeforeStore: the tools of a step have run and their results are not committed.
	ResultsBeforeStore Point = "results_before_store"
	// ResultsStored: the results of a step are committed and the harness does not know it.
	ResultsStored Point = "results_stored"
	// AgentStarted: a call of an agent by another is committed as an invocation, and its frame is not committed.
	AgentStarted Point = "agent_started"
	// ChildTurnStored: the turn of a child agent is committed and the harness does not know it.
	ChildTurnStored Point = "child_turn_stored"
	// ChildResultsStored: the results of a step of a child agent are committed and the harness does not know it.
	ChildResultsStored Point = "child_results_stored"
	// AgentEnded: the end of an invocation is committed, and the result of the call that started it is not.
	AgentEnded Point = "agent_ended"
	// RequestAudited: the record of a request to a model is committed, and the request has not left.
	RequestAudited Point = "request_audited"
	// BudgetGranted: the reservation of a model call is committed and the harness does not know it.
	BudgetGranted Point = "budget_granted"
	// BudgetSettled: the use of a model call is committed with its turn.
	BudgetSettled Point = "budget_settled"
	// SummaryPaid: a summarizer has answered, and neither its use nor the compaction is committed.
	SummaryPaid Point = "summary_paid"
	// CompactionStored: a compaction of an agent's conversation is committed, and its next request is not sent.
	CompactionStored Point = "compaction_stored"
	// SteerStored: a message for a running run is committed; the caller has no answer and no frame is out.
	SteerStored Point = "steer_stored"
	// ApprovalStored: a tool call's request for approval is committed, and no frame is out.
	ApprovalStored Point = "approval_stored"
	// ApprovalAnswered: an operator's answer is committed; neither the harness nor a client knows it.
	ApprovalAnswered Point = "approval_answered"
	// ApprovedTextsStored: the texts of the prompts that an operator approves are on disk, and the approval is not
	// committed.
	ApprovedTextsStored Point = "approved_texts_stored"
	// ProjectApproved: the approval of a project's files is committed; the caller has no answer.
	ProjectApproved Point = "project_approved"
	// CancelStored: an operator's request to stop a run is committed, and the run has not ended.
	CancelStored Point = "cancel_stored"
	// RunEndBeforeStore: the run is over and its end is not committed.
	RunEndBeforeStore Point = "run_end_before_store"
	// RunEndStored: the end of the run is committed and its last frames are not published.
	RunEndStored Point = "run_end_stored"
	// FramesPublished: frames of a change of state are published and still in the outbox.
	FramesPublished Point = "frames_published"
	// RecoveryStored: the end of an interrupted run is committed by its new holder and not published.
	RecoveryStored Point = "recovery_stored"
	// SessionEndStored: the end of a session is committed; its processes are not ended and no frame is out.
	SessionEndStored Point = "session_end_stored"

	// IssueBeforeStore: a change of an issue is written in its transaction and not committed.
	IssueBeforeStore Point = "issue_before_store"
	// IssueStored: a change of an issue is committed; the caller has no answer and no notice is out.
	IssueStored Point = "issue_stored"

	// FileWritten: the new content of one more file is written beside the old file, without its mode and owner.
	FileWritten Point = "file_written"
	// FilesStaged: the new files of a set of changes are written, and every old file is still in its place.
	FilesStaged Point = "files_staged"
	// FileBegun: the overwriting of one more file of a set is recorded and has not begun.
	FileBegun Point = "file_begun"
	// FileCommitted: one more file of a set has its new content.
	FileCommitted Point = "file_committed"
	// FilesCommitted: all files of a set have their new content, which is recorded; the old files still exist.
	FilesCommitted Point = "files_committed"
	// FileTakenBack: one more file of a failed set has its old content.
	FileTakenBack Point = "file_taken_back"
	// FilesTakenBack: all files of a failed set have their old content, which is recorded; the new files still exist.
	FilesTakenBack Point = "files_taken_back"
	// FileCleared: one more temporary file of a committed or failed set is removed.
	FileCleared Point = "file_cleared"

	// ProcessNoted: a background process is in the table, and its start was not requested.
	ProcessNoted Point = "process_noted"
	// ProcessStarted: a background process runs; its call has no answer.
	ProcessStarted Point = "process_started"

	// CageNoted: the list of a cage's future traces on the host is stored; no trace is made yet.
	CageNoted Point = "cage_noted"
	// CageStubHalf: a stub file exists and is still empty.
	CageStubHalf Point = "cage_stub_half"
	// CageStubMade: one more stub exists for a cage that does not exist yet.
	CageStubMade Point = "cage_stub_made"
	// CageStarted: the first process of a cage runs and has not begun to set the cage up.
	CageStarted Point = "cage_started"
	// CageBuilt: a cage exists and is not reported yet.
	CageBuilt Point = "cage_built"
	// CageEmpty: all processes of a cage have ended and its traces on the host remain.
	CageEmpty Point = "cage_empty"
	// CageStubRemoved: one more stub of an ended cage is removed.
	CageStubRemoved Point = "cage_stub_removed"
)

// Points returns every point, in the order of the list.
func Points() []Point {
	return slices.Clone(points)
}

var points = []Point{
	LeaseTaken, MessageStored, RunDispatched, RunReleased, RunAdopted,
	TurnBeforeStore, TurnStored, ResultsBeforeStore, ResultsStored, AgentStarted,
	ChildTurnStored, ChildResultsStored, AgentEnded,
	RequestAudited, BudgetGranted, BudgetSettled, SummaryPaid, CompactionStored, SteerStored,
	ApprovalStored, ApprovalAnswered, ApprovedTextsStored, ProjectApproved, CancelStored,
	RunEndBeforeStore, RunEndStored, FramesPublished, RecoveryStored, SessionEndStored,
	IssueBeforeStore, IssueStored,
	FileWritten, FilesStaged, FileBegun, FileCommitted, FilesCommitted, FileTakenBack, FilesTakenBack, FileCleared,
	ProcessNoted, ProcessStarted,
	CageNoted, CageStubHalf, CageStubMade, CageStarted, CageBuilt, CageEmpty, CageStubRemoved,
}
