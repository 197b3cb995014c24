// Package sessions has the operators' actions on sessions: create, read, change and end them, post messages, and
// cancel runs.
//
// Reading needs no lease and goes to the store. A change makes the session live first (package live), so it happens
// in the one process that holds the session's lease; elsewhere it is refused with stale_lease, with the address to
// ask as details.holder. Sessions of other operators are answered like ones that do not exist.
package sessions

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Store reads and creates sessions.
type Store interface {
	// Create adds a session of a registered project. With a session to fork from, its messages so far that are not
	// superseded are copied. It fails with not_found if the project is not there any more.
	Create(ctx context.Context, s record.Session, forkFrom string, created audit.Record) error
	// Session returns a session of an operator. It fails with not_found.
	Session(ctx context.Context, owner, id string) (record.Session, error)
	// List returns up to limit sessions of a project after a place, newest first.
	List(ctx context.Context, owner, project string, after *page.Key, limit int32) ([]record.Session, error)
	// Search returns up to limit sessions of an operator after a place, newest first: of one project if project is
	// not empty, and if words are given only those with a text that has each of them as the beginning of a word.
	Search(
		ctx context.Context, owner, project string, words []string, after *page.Key, limit int32,
	) ([]Found, error)
	// FillWords makes up to limit stored texts searchable and returns their number. ToFill has a value after such a
	// text was stored here.
	FillWords(ctx context.Context, limit int32) (int64, error)
	ToFill() <-chan struct{}
	// Spending sums up the settled model calls of an operator since a moment, in milliseconds, and the same by project and
	// model, at most limit of them, the most expensive first.
	Spending(ctx context.Context, owner string, since int64, limit int32) (Spent, []SpentOn, error)
	// Owned returns which of some sessions are an operator's.
	Owned(ctx context.Context, owner string, ids []string) ([]string, error)
	// Open returns the sessions of a project that have not ended.
	Open(ctx context.Context, owner, project string) ([]string, error)
	// Workspaces returns the names of the workspaces, other than the default one, in which commands may run for an
	// operator.
	Workspaces(ctx context.Context, owner string) ([]string, error)
	// LateRecord stores a record of a session under an id, once however often it is called. It stores no record of
	// an unknown session, or of one that has ended, because those come with its end.
	LateRecord(ctx context.Context, workspace, session, id string, r contract.Record) (stored bool, err error)
	// ToolsToEnd returns up to limit sessions that ended at or before a moment, in milliseconds, with a workspace
	// that may not have heard of it, oldest first; those of the workspaces in except are left out. ToolsEnded notes
	// that it has, and appends the records of the ended processes there; noted again, it has no effect.
	ToolsToEnd(ctx context.Context, endedUntil int64, except []string, limit int) ([]record.Untold, error)
	ToolsEnded(ctx context.Context, session string, ended []contract.Record) error
	// Ordinal returns a message's place in its session. It fails with not_found.
	Ordinal(ctx context.Context, session, message string) (int64, error)
	// Messages returns up to limit messages of a part of a session, and whether the part has more. It returns fewer
	// where they are large, and at least one if there is one.
	Messages(ctx context.Context, session string, p record.Part, limit int32) (list []record.Message, more bool, err error)
	// TurnsBefore returns the number of the operator's messages before an ordinal.
	TurnsBefore(ctx context.Context, session string, ordinal int64) (int32, error)
	// Runs returns up to limit runs of a session after a place, oldest first.
	Runs(ctx context.Context, session string, after *page.Key, limit int32) ([]record.Run, error)
	// Running returns how many sessions of an operator have a run at work, by project, and a version of the count.
	Running(ctx context.Context, owner string) (perProject map[string]int, version int64, err error)
	// Status returns the counts of a project: sessions as of now, work since a moment, and its last runs.
	Status(ctx context.Context, owner, project string, since int64, runs int32) (record.Status, error)
	// ActiveRuns returns an operator's runs that are pending or at work, of one session or of all where session is
	// empty, oldest first.
	ActiveRuns(ctx context.Context, owner, session string) ([]record.ActiveRun, error)
	// PostedTo returns the ids of the operator's messages of a run.
	PostedTo(ctx context.Context, session, run string) ([]string, error)
	// Run returns a run of a session. It fails with not_found.
	Run(ctx context.Context, session, run string) (record.Run, error)
	// Approval returns a request for approval of a session. It fails with not_found.
	Approval(ctx context.Context, session, id string) (record.Approval, error)
	// Approvals returns up to limit requests of a session after a place, newest first; with a state only those in it.
	Approvals(
		ctx context.Context, session string, state record.ApprovalState, after *page.Key, limit int32,
	) ([]record.Approval, error)
	// ApprovalsOf returns the same of all sessions of an operator.
	ApprovalsOf(
		ctx context.Context, owner string, state record.ApprovalState, after *page.Key, limit int32,
	) ([]record.Approval, error)
	// StandingCount returns how many standing approvals of an operator are in force in a project.
	StandingCount(ctx context.Context, owner, project string) (int, error)
	// StandingOf returns up to limit standing approvals of an operator after a place, newest first; with a project or a
	// session only theirs, and those that are revoked only with revoked.
	StandingOf(
		ctx context.Context, owner, project, session string, revoked bool, after *page.Key, limit int32,
	) ([]record.Standing, error)
	// RevokeStanding revokes a standing approval of an operator and appends the record that made gives; one that is
	// revoked stays as it is. It fails with not_found.
	RevokeStanding(
		ctx context.Context, owner, id, by string, at int64, made func(record.Standing) audit.Record,
	) (record.Standing, error)
	// ShownSteps returns the stored steps in order of an invocation in a run, or of the root agent where that is "".
	ShownSteps(ctx context.Context, run, invocation string) ([]transcript.Step, error)
	// Invocations returns up to limit invocations of a session after a place, the oldest first, with the beginnings
	// of their texts; with a run only those in it.
	Invocations(ctx context.Context, session, run string, after *page.Key, limit int32) ([]record.Invocation, error)
	// Invocation returns an invocation of a session. It fails with not_found.
	Invocation(ctx context.Context, session, id string) (record.Invocation, error)
	// InvocationsOf returns the first invocations of some runs, without their texts.
	InvocationsOf(ctx context.Context, runs []string, limit int32) ([]record.Invocation, error)
	// LiveInvocations returns the invocations at work below the root agents in an operator's sessions, or in one of
	// them, the oldest first; only the fields of such a list are set.
	LiveInvocations(ctx context.Context, owner, session string) ([]record.Invocation, error)
	// History returns the messages of a session in order, those after an ordinal, with their superseded parts.
	History(ctx context.Context, session string, after int64) ([]record.Message, error)
	// Ledger returns up to limit entries of a session's ledger after a place, oldest first; with an agent or a kind only
	// those. RelevantLedger returns the part that a run is given.
	Ledger(
		ctx context.Context, session, agent, kind string, after *page.Key, limit int32,
	) ([]contract.LedgerEntry, error)
	RelevantLedger(ctx context.Context, session string) (contract.Ledger, error)
	// Compactions returns up to limit compactions of a session after a place, newest first; with an agent only its own.
	Compactions(ctx context.Context, session, agent string, after *page.Key, limit int32) ([]record.Compaction, error)
	// Compaction returns a compaction of a session. It fails with not_found.
	Compaction(ctx context.Context, session, id string) (record.Compaction, error)
	// SupersededMessages returns the messages with parts that a compaction superseded, in order and shortened.
	SupersededMessages(ctx context.Context, session, compaction string) ([]record.Message, error)
	// Use returns the use of models by a session of an operator.
	Use(ctx context.Context, owner, session string) (record.Use, error)
}

// Projects is the part of the registry of projects that sessions need.
type Projects interface {
	live.Projects
	// Known fails with not_found for a project the operator does not have.
	Known(ctx context.Context, owner, id string) error
	// Current returns the inputs of a session created now, as [projects.Service.Current] says.
	Current(ctx context.Context, owner, id string) (projects.Runtime, error)
	// PromptTexts returns the kept texts of prompts by their SHA-256 (hex).
	PromptTexts(ctx context.Context, hashes []string) (map[string]string, error)
	// MarkOpened notes that a session of the project is in use.
	MarkOpened(ctx context.Context, owner, id string)
}

// Tools are the commands of sessions in their workspaces.
type Tools interface {
	// EndSession ends the commands of a session and returns the records of their ends, without an operator, which
	// the caller sets. Ending it twice is like ending it once, and returns the same records.
	EndSession(ctx context.Context, workspace, session string) ([]contract.Record, error)
	// Running returns the commands of a session, or of all if that is empty, the oldest first. It fails with
	// unavailable.
	Running(ctx context.Context, workspace, session string) (Running, error)
	// Changes returns the files that a session has changed. It fails with not_found and unavailable.
	Changes(ctx context.Context, workspace string, q ChangesQuery) (Changes, error)
	// SignalProcess sends a signal to a command of a session. It fails with the codes of ToolRunnerService.SignalProcess.
	SignalProcess(ctx context.Context, workspace, session, process, signal string) error
	// Debug shows the debug sessions of a session. It fails with not_found for an unknown debug session and with
	// unavailable.
	Debug(ctx context.Context, workspace string, l DebugLook) (Debugged, error)
	// ControlDebug moves a debugged program for an operator. It fails with the codes of ToolRunnerService.ControlDebug.
	ControlDebug(ctx context.Context, workspace, operator string, m DebugMove) (DebugMoved, error)
	// Watch gives the records of ends between calls in a workspace to store, one at a time, until ctx ends or the
	// workspace is lost. A record that was stored is not given again; the same record has the same id.
	Watch(
		ctx context.Context, workspace string, store func(session, id string, r contract.Record) (stored bool, err error),
	) error
}

// Issues are the issues of projects.
type Issues interface {
	// Check fails with not_found if the caller's project has no issue of this number, and with unavailable if that cannot
	// be said.
	Check(ctx context.Context, project string, number int64) error
}

// Peers are the other processes that hold sessions.
type Peers interface {
	// EndSession has the holder at an address end a session of the caller.
	EndSession(ctx context.Context, address, session string) error
}

// Config bounds a Service.
type Config struct {
	// MaxContent is the largest message in bytes.
	MaxContent int
	// RunStarts is how many messages are stored, and their runs made ready, at the same time.
	RunStarts int
	// StopTimeout is how long cancelling a run may take.
	StopTimeout time.Duration
	// ToolsTimeout is how long ending the commands of a session may take, ToolsRetry the retry interval for an
	// unreachable workspace.
	ToolsTimeout, ToolsRetry time.Duration
	// Workspaces are all there are; the default one has the empty name.
	Workspaces []string
	// AttachWait is how long a socket waits for the one before it to be gone.
	AttachWait time.Duration
	// Farewell is how long the last frame of a session may take to be published before its socket is told.
	Farewell time.Duration
}

// Deps are a Service's dependencies. Every field is required.
type Deps struct {
	Config
	Store    Store
	Live     *live.Registry
	Projects Projects
	Tools    Tools
	Issues   Issues
	Peers    Peers
	// Told takes notices for an operator's consoles; see package notices.
	Told func(owner string, what any)
	// Recorded takes a record between calls that was stored, for the log of its project.
	Recorded func(r audit.Record)
	// Limits returns how many sessions may have a run at work in a project of an operator, and of the operator.
	Limits func(ctx context.Context, owner string) (perProject, perOperator int)
	// Compactor works on conversations between runs.
	Compactor Compactor
	Renderer  frames.Renderer
	Log       *slog.Logger
}

// Service answers for sessions. It is safe for concurrent use; the caller is the operator that the context carries.
// [Service.TellWorkspaces], [Service.WatchWorkspaces], [Service.FillWords], [Service.CompactSessions] and
// [Service.FollowRuns], with one for each compaction at work and each run that it begins, are its goroutines.
type Service struct {
	Deps
	starts  chan struct{} // holds a token per message that is being stored
	waiting atomic.Int64  // messages that wait for one
	// compactions are manual ones that wait, compactors those at work.
	compactions chan *compacting
	compactors  sync.WaitGroup
	follows     follows
}

// New returns a Service.
func New(deps Deps) *Service {
	return &Service{
		Deps: deps, starts: make(chan struct{}, deps.RunStarts), compactions: make(chan *compacting),
		follows: follows{wake: make(chan struct{}, 1)},
	}
}

// maxLabel is the longest label in characters.
const maxLabel = 120

// cleanLabel returns a label as it is kept.
func cleanLabel(field, label string) (string, error) {
	label = strings.TrimSpace(label)
	return label, check.Text(field, label, maxLabel)
}

// find returns the caller's session; an id that cannot exist is like any other unknown one.
func (s *Service) find(ctx context.Context, id string) (record.Session, error) {
	if !check.Findable(id) {
		return record.Session{}, record.NotFound(id)
	}
	return s.Store.Session(ctx, ident.CallerFrom(ctx).UserID, id)
}

// acquire makes the caller's session live, until release is called.
func (s *Service) acquire(ctx context.Context, id string) (l *live.Session, release func(), err error) {
	l, release, ok := s.Live.Live(id)
	if !ok {
		if _, err := s.find(ctx, id); err != nil {
			return nil, nil, err
		}
		if l, release, err = s.Live.Acquire(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	switch r := l.Record(); {
	case r.Owner != ident.CallerFrom(ctx).UserID:
		release()
		return nil, nil, record.NotFound(id)
	case r.State == record.Ended:
		release()
		return nil, nil, record.Gone()
	}
	return l, release, nil
}

// about returns a record of the caller about a session.
func about(ctx context.Context, of record.Session, eventType string, payload map[string]any) audit.Record {
	r := audit.New(ctx, eventType, payload)
	r.UserID, r.ProjectID, r.SessionID = of.Owner, of.ProjectID, of.ID
	return r.Clean()
}

func now() int64 { return time.Now().UnixMilli() }

// notConfirmed is the answer to an end of a session without confirm.
func notConfirmed() error {
	return fault.New(fault.BadRequest, "Ending a session cannot be taken back; repeat the request with confirm=true.").
		With("reason", "confirm_required")
}
