// Package sessions has the operators' actions on sessions: create, read, change and end them, post messages, and
// cancel runs.
//
// Reads need no lease and go to the store. A change first makes the session live (package live), so it happens in
// the one process that holds the session's lease; other processes refuse it with stale_lease and the holder's
// address in details.holder. A session of another operator is treated as missing.
package sessions

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/late"
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
	// Create adds a session of a registered project. If forkFrom is not empty, its messages that are not superseded
	// are copied. It fails with not_found if the project is no longer registered.
	Create(ctx context.Context, s record.Session, forkFrom string, created audit.Record) error
	// Session returns a session of an operator. It fails with not_found.
	Session(ctx context.Context, owner, id string) (record.Session, error)
	// List returns up to limit sessions of a project after a place, newest first.
	List(ctx context.Context, owner, project string, after *page.Key, limit int32) ([]record.Session, error)
	// Search returns up to limit sessions of an operator after a place, newest first. A non-empty project filters
	// them; if words are given, a session must have a text in which each of them begins a word.
	Search(
		ctx context.Context, owner, project string, words []string, after *page.Key, limit int32,
	) ([]Found, error)
	// FillWords adds up to limit stored texts to the search index and returns their number. ToFill receives after this
	// process has stored such a text.
	FillWords(ctx context.Context, limit int32) (int64, error)
	ToFill() <-chan struct{}
	// Spending returns the use of an operator's settled model calls since a Unix time in milliseconds: the total, and
	// up to limit sums by project and model, most expensive first.
	Spending(ctx context.Context, owner string, since int64, limit int32) (Spent, []SpentOn, error)
	// Owned returns those of the given sessions that belong to an operator.
	Owned(ctx context.Context, owner string, ids []string) ([]string, error)
	// Open returns the sessions of a project that have not ended.
	Open(ctx context.Context, owner, project string) ([]string, error)
	// Workspaces returns the names of the workspaces, without the default one, in which an operator's commands may
	// run.
	Workspaces(ctx context.Context, owner string) ([]string, error)
	// LateRecord stores an audit record of a session under the record's id. Repeated calls store it once. A record of an
	// unknown session is not stored. A record of an ended session is stored only if it belongs to the project: the end of
	// a session stores the session's own records.
	LateRecord(ctx context.Context, workspace string, r late.Record) (stored bool, err error)
	// ToolsToEnd returns up to limit sessions that ended at or before a Unix time in milliseconds and whose workspace
	// may not know of it, oldest first, without those of the workspaces in except. ToolsEnded marks the workspace of
	// one as told, and appends the audit records of the ended processes there; it is idempotent.
	ToolsToEnd(ctx context.Context, endedUntil int64, except []string, limit int) ([]record.Untold, error)
	ToolsEnded(ctx context.Context, session string, ended []contract.Record) error
	// Ordinal returns the ordinal of a message in its session. It fails with not_found.
	Ordinal(ctx context.Context, session, message string) (int64, error)
	// Messages returns up to limit messages of a part of a session, and whether the part has more. It returns fewer if
	// the messages are large, but at least one if there is one.
	Messages(ctx context.Context, session string, p record.Part, limit int32) (list []record.Message, more bool, err error)
	// TurnsBefore returns the number of the operator's messages before an ordinal.
	TurnsBefore(ctx context.Context, session string, ordinal int64) (int32, error)
	// Runs returns up to limit runs of a session after a place, oldest first.
	Runs(ctx context.Context, session string, after *page.Key, limit int32) ([]record.Run, error)
	// Running returns the number of an operator's sessions with an active run, by project, and a version of the count.
	Running(ctx context.Context, owner string) (perProject map[string]int, version int64, err error)
	// Status returns the statistics of a project: its sessions, the work since a Unix time in milliseconds, and its
	// last runs.
	Status(ctx context.Context, owner, project string, since int64, runs int32) (record.Status, error)
	// ActiveRuns returns an operator's pending and active runs, oldest first; a non-empty session filters them.
	ActiveRuns(ctx context.Context, owner, session string) ([]record.ActiveRun, error)
	// PostedTo returns the ids of the operator's messages for a run.
	PostedTo(ctx context.Context, session, run string) ([]string, error)
	// Run returns a run of a session. It fails with not_found.
	Run(ctx context.Context, session, run string) (record.Run, error)
	// Approval returns an approval of a session. It fails with not_found.
	Approval(ctx context.Context, session, id string) (record.Approval, error)
	// Approvals returns up to limit approvals of a session after a place, newest first; a non-empty state filters
	// them.
	Approvals(
		ctx context.Context, session string, state record.ApprovalState, after *page.Key, limit int32,
	) ([]record.Approval, error)
	// ApprovalsOf is Approvals for all sessions of an operator.
	ApprovalsOf(
		ctx context.Context, owner string, state record.ApprovalState, after *page.Key, limit int32,
	) ([]record.Approval, error)
	// StandingCount returns the number of an operator's valid standing approvals in a project.
	StandingCount(ctx context.Context, owner, project string) (int, error)
	// StandingOf returns up to limit standing approvals of an operator after a place, newest first. A non-empty
	// project or session filters them; revoked ones are included only with revoked.
	StandingOf(
		ctx context.Context, owner, project, session string, revoked bool, after *page.Key, limit int32,
	) ([]record.Standing, error)
	// RevokeStanding revokes a standing approval of an operator and appends the audit record that made returns;
	// revoking it again has no effect. It fails with not_found.
	RevokeStanding(
		ctx context.Context, owner, id, by string, at int64, made func(record.Standing) audit.Record,
	) (record.Standing, error)
	// ShownSteps returns the stored steps, in order, of an invocation of a run, or of its root agent if invocation is
	// "".
	ShownSteps(ctx context.Context, run, invocation string) ([]transcript.Step, error)
	// Invocations returns up to limit invocations of a session after a place, oldest first, with shortened texts; a
	// non-empty run filters them.
	Invocations(ctx context.Context, session, run string, after *page.Key, limit int32) ([]record.Invocation, error)
	// Invocation returns an invocation of a session. It fails with not_found.
	Invocation(ctx context.Context, session, id string) (record.Invocation, error)
	// InvocationsOf returns the first invocations of the given runs, without their texts.
	InvocationsOf(ctx context.Context, runs []string, limit int32) ([]record.Invocation, error)
	// LiveInvocations returns the active invocations below the root agents in an operator's sessions, oldest first,
	// with the fields of a list only; a non-empty session filters them.
	LiveInvocations(ctx context.Context, owner, session string) ([]record.Invocation, error)
	// History returns the messages of a session after an ordinal, in order, with their superseded parts.
	History(ctx context.Context, session string, after int64) ([]record.Message, error)
	// Ledger returns up to limit entries of a session's ledger after a place, oldest first; a non-empty agent or kind
	// filters them. RelevantLedger returns the entries that a run receives.
	Ledger(
		ctx context.Context, session, agent, kind string, after *page.Key, limit int32,
	) ([]contract.LedgerEntry, error)
	RelevantLedger(ctx context.Context, session string) (contract.Ledger, error)
	// Compactions returns up to limit compactions of a session after a place, newest first; a non-empty agent filters
	// them.
	Compactions(ctx context.Context, session, agent string, after *page.Key, limit int32) ([]record.Compaction, error)
	// Compaction returns a compaction of a session. It fails with not_found.
	Compaction(ctx context.Context, session, id string) (record.Compaction, error)
	// SupersededMessages returns the messages with parts that a compaction superseded, in order, with shortened texts.
	SupersededMessages(ctx context.Context, session, compaction string) ([]record.Message, error)
	// Use returns the model use of a session of an operator.
	Use(ctx context.Context, owner, session string) (record.Use, error)
}

// Projects is the part of the registry of projects that sessions need.
type Projects interface {
	live.Projects
	// Known fails with not_found if the operator does not have the project.
	Known(ctx context.Context, owner, id string) error
	// Current returns the inputs of a session created now; see [projects.Service.Current].
	Current(ctx context.Context, owner, id string) (projects.Runtime, error)
	// PromptTexts returns the stored texts of prompts by SHA-256 digest in hex.
	PromptTexts(ctx context.Context, hashes []string) (map[string]string, error)
	// MarkOpened stores that a session of the project was used.
	MarkOpened(ctx context.Context, owner, id string)
}

// Tools runs and observes the commands of sessions in their workspaces.
type Tools interface {
	// EndSession ends the commands of a session and returns the audit records of their ends; the caller adds the
	// operator. It is idempotent and returns the same records again.
	EndSession(ctx context.Context, workspace, session string) ([]contract.Record, error)
	// Running returns the running commands of a session, or of all sessions if session is empty, oldest first. It
	// fails with unavailable.
	Running(ctx context.Context, workspace, session string) (Running, error)
	// Changes returns the files that a session has changed. It fails with not_found and unavailable.
	Changes(ctx context.Context, workspace string, q ChangesQuery) (Changes, error)
	// SignalProcess sends a signal to a command of a session. It fails with the codes of ToolRunnerService.SignalProcess.
	SignalProcess(ctx context.Context, workspace, session, process, signal string) error
	// Debug returns the debug sessions of a session. It fails with not_found for an unknown debug session and with
	// unavailable.
	Debug(ctx context.Context, workspace string, l DebugLook) (Debugged, error)
	// ControlDebug carries out an operator's action on a debugged program. It fails with the codes of
	// ToolRunnerService.ControlDebug.
	ControlDebug(ctx context.Context, workspace, operator string, m DebugMove) (DebugMoved, error)
	// Watch passes the events of a workspace between tool calls to a watcher, one at a time, until ctx ends or the
	// workspace is lost.
	Watch(ctx context.Context, workspace string, to Watcher) error
}

// Watcher receives the events of a workspace.
type Watcher struct {
	// State receives the state of the workspace: as it is at first, and when the workspace begins to drain.
	State func(draining bool)
	// Store stores an audit record. A stored record is not passed again; the same record has the same id.
	Store func(r late.Record) (stored bool, err error)
}

// Issues looks up issues of projects.
type Issues interface {
	// Check fails with not_found if the caller's project has no issue with this number, and with unavailable if the
	// lookup fails.
	Check(ctx context.Context, project string, number int64) error
}

// Peers are the other session-manager processes.
type Peers interface {
	// EndSession asks the holder at an address to end the caller's session.
	EndSession(ctx context.Context, address, session string) error
}

// Config bounds a Service.
type Config struct {
	// MaxContent is the largest message in bytes.
	MaxContent int
	// RunStarts bounds the messages that are stored, and their runs prepared, at the same time.
	RunStarts int
	// StopTimeout bounds the wait for the end of a cancelled run.
	StopTimeout time.Duration
	// ToolsTimeout bounds the ending of a session's commands, ToolsRetry is the retry interval for an unreachable
	// workspace.
	ToolsTimeout, ToolsRetry time.Duration
	// Workspaces are the names of all workspaces; the default one has the empty name.
	Workspaces []string
	// AttachWait bounds the wait of a socket for the present holder to detach.
	AttachWait time.Duration
	// Farewell bounds the wait for a session's last frame to be published before its socket is told.
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
	// Told sends a notice to an operator's consoles; see package notices.
	Told func(owner string, what any)
	// Recorded passes a stored audit record from between tool calls to the log of its project.
	Recorded func(r audit.Record)
	// Limits returns the limits of sessions with an active run, per project and per operator.
	Limits func(ctx context.Context, owner string) (perProject, perOperator int)
	// Compactor compacts conversations between runs.
	Compactor Compactor
	Renderer  frames.Renderer
	Log       *slog.Logger
}

// Service carries out operators' actions on sessions. It is safe for concurrent use. The context carries the
// caller.
//
// Goroutines: [Service.TellWorkspaces], [Service.WatchWorkspaces] with one for each workspace, [Service.FillWords],
// [Service.CompactSessions] with one for each compaction, and [Service.FollowRuns] with one for each run that it
// begins.
type Service struct {
	Deps
	starts  chan struct{} // holds a token for each message being stored
	waiting atomic.Int64  // number of messages that wait for a token
	// compactions hands manual compactions over to CompactSessions; compactors counts those in progress.
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

// maxLabel bounds a label, in characters.
const maxLabel = 120

// cleanLabel returns a label without surrounding space, checked.
func cleanLabel(field, label string) (string, error) {
	label = strings.TrimSpace(label)
	return label, check.Text(field, label, maxLabel)
}

// labelFor returns the label of a session without one for its first message: the message's first line, cut.
func labelFor(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return clip.WithinRunes(strings.TrimSpace(line), maxLabel, "…")
}

// find returns the caller's session. An impossible id is treated as unknown.
func (s *Service) find(ctx context.Context, id string) (record.Session, error) {
	if !check.Findable(id) {
		return record.Session{}, record.NotFound(id)
	}
	return s.Store.Session(ctx, ident.CallerFrom(ctx).UserID, id)
}

// acquire makes the caller's session live until release is called.
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

// about returns an audit record of the caller about a session.
func about(ctx context.Context, of record.Session, eventType string, payload map[string]any) audit.Record {
	r := audit.New(ctx, eventType, payload)
	r.UserID, r.ProjectID, r.SessionID = of.Owner, of.ProjectID, of.ID
	return r.Clean()
}

func now() int64 { return time.Now().UnixMilli() }

// notConfirmed is the error for ending a session without confirm.
func notConfirmed() error {
	return fault.New(fault.BadRequest, "Ending a session cannot be taken back; repeat the request with confirm=true.").
		With("reason", "confirm_required")
}
