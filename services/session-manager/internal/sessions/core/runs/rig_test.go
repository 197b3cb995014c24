package runs_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writer records a run's commits and frames, with the time since the test began.
type writer struct {
	mu      sync.Mutex // guards the fields below
	begun   time.Time
	log     []string
	changes []record.Change
	// slow is the duration of a commit, refuse its error.
	slow   time.Duration
	refuse error
	// waiting are the operator's messages for the next boundary.
	waiting []record.Steer
}

func (d *writer) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, fmt.Sprintf("%v ", time.Since(d.begun))+fmt.Sprintf(format, args...))
}

func (d *writer) said() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.log...)
}

func (d *writer) Emit(_ context.Context, f frames.Frame) error {
	d.note("%s", f.Type)
	return nil
}

func (d *writer) Waiting() []record.Steer { return d.waiting }

func (d *writer) Reserve(_ context.Context, c record.Claim) (record.Verdict, error) {
	d.note("claim %d", c.Call)
	return record.Verdict{}, nil
}

func (d *writer) Commit(ctx context.Context, c record.Change, _ crash.Point) error {
	d.mu.Lock()
	slow, refuse := d.slow, d.refuse
	d.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	if refuse != nil {
		return refuse
	}
	var what []string
	for _, h := range c.Steps {
		what = append(what, fmt.Sprint(map[bool]string{true: "turn ", false: "results "}[h.Turn != nil], h.Step))
	}
	for _, r := range c.Audit {
		what = append(what, r.EventType)
	}
	if c.EndRun != nil {
		what = append(what, string(c.EndRun.State))
	}
	d.note("committed %s", strings.Join(what, ", "))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes = append(d.changes, c)
	return nil
}

func (d *writer) last() record.Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes[len(d.changes)-1]
}

// resumes reports whether the run's end says that a new run is to continue it.
func (d *writer) resumes() bool { return d.last().Session.ResumeRun != nil }

// decision is an operator's answer to a request.
type decision struct {
	approval string
	contract.Decision
}

// happening is an event of an agent below the root.
type happening contract.Happening

// harness is a run in the harness; the test sends its events and receives its answers.
type harness struct {
	events  chan any // a contract.Event of the root agent, or a happening
	stored  chan runs.Half
	cancels chan string
	// decided are the answers of operators.
	decided chan decision
	granted chan contract.CallGranted
	gone    chan struct{} // closed when the run may make model requests
	taken   context.Context
	failure error
	halted  atomic.Bool
	start   runs.Start
	away    atomic.Int32 // number of attempts that find no harness
	deaf    error        // error of Go
	// refusals are closed when the harness, which stops, refuses the run at each of the first tries.
	refusals chan chan struct{}
}

func newHarness() *harness {
	return &harness{
		events: make(chan any), stored: make(chan runs.Half, 16), cancels: make(chan string, 1),
		decided: make(chan decision, 4), granted: make(chan contract.CallGranted, 4), gone: make(chan struct{}),
		refusals: make(chan chan struct{}, 4),
	}
}

func (h *harness) Start(ctx context.Context, s runs.Start) (runs.Stream, error) {
	h.taken, h.start = ctx, s
	if h.away.Add(-1) >= 0 {
		return nil, fault.New(fault.Unavailable, "The harness is away.")
	}
	select {
	case refused := <-h.refusals:
		return refusing{&stream{h, ctx}, refused}, nil
	default:
	}
	return &stream{h, ctx}, h.failure
}

// refusing is a run that was given to a harness that stops.
type refusing struct {
	*stream
	refused chan struct{}
}

func (refusing) Go() error { return nil }

func (r refusing) Recv() (contract.Happening, error) {
	<-r.refused
	return contract.Happening{}, fault.From(contract.HarnessStopping())
}

type stream struct {
	*harness
	ctx context.Context
}

func (s *stream) Go() error {
	close(s.gone)
	return s.deaf
}

func (s *stream) Recv() (contract.Happening, error) {
	select {
	case e, ok := <-s.events:
		if !ok {
			return contract.Happening{}, io.EOF
		}
		if h, ok := e.(happening); ok {
			return contract.Happening(h), nil
		}
		return contract.Happening{Event: e.(contract.Event)}, nil
	case <-s.ctx.Done():
		return contract.Happening{}, context.Cause(s.ctx)
	}
}

func (s *stream) Stored(h runs.Half, _ runs.News) error {
	s.stored <- h
	return nil
}

func (s *stream) Decide(id string, d contract.Decision) error {
	s.decided <- decision{id, d}
	return nil
}

func (s *stream) Grant(_ string, g contract.CallGranted) error {
	s.granted <- g
	return nil
}

func (s *stream) CancelInvocation(id, _ string) error {
	s.cancels <- id
	return nil
}

func (s *stream) Halt() error {
	s.halted.Store(true)
	return nil
}

func (s *stream) Cancel(reason string) error {
	s.cancels <- reason
	return nil
}

// renderer renders a payload as its type, and panics on the delta "boom".
type renderer struct{}

func (renderer) Append(dst []byte, p frames.Payload) ([]byte, error) {
	if d, ok := p.(frames.MessageDelta); ok && d.Delta == "boom" {
		panic(d.Delta)
	}
	return fmt.Appendf(dst, "%T", p), nil
}

// noIssues is an issue service without issues.
type noIssues struct{}

func (noIssues) OpenTodos(context.Context, string, string, int64) (contract.OpenTodos, error) {
	return contract.OpenTodos{}, nil
}

// begin starts a run in a harness controlled by the test.
func begin(t *testing.T, h *harness, resume bool) (*runs.Run, *writer) {
	t.Helper()
	d := &writer{begun: time.Now()}
	r := ready(t, h, resume)
	r.Begin(d, func(*runs.Run) { d.note("over") })
	return r, d
}

// ready gives a run to a harness controlled by the test.
func ready(t *testing.T, h *harness, resume bool) *runs.Run {
	t.Helper()
	return readyTo(t, h, resume, nil)
}

// readyTo is ready, for a run that was handed over unless c is nil.
func readyTo(t *testing.T, h *harness, resume bool, c *runs.Continued) *runs.Run {
	t.Helper()
	source := localconfig.NewFile("", 1<<20, slog.New(slog.DiscardHandler))
	cfg, err := source.Config(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	return runs.Ready(runs.Deps{
		Harness: h, Issues: noIssues{}, Renderer: renderer{}, Config: source, Log: slog.New(slog.DiscardHandler),
		HoldBack: 50 * time.Millisecond, CancelGrace: 5 * time.Second, ApprovalTimeout: time.Minute, Resumptions: 1,
		StartFor: time.Minute,
	}, runs.Spec{
		Session: record.Session{ID: "s", Owner: "ada", ProjectID: "p"}, Run: record.Run{
			ID: "r", SessionID: "s",
			MessageID: "m",
		}, RequestID: "q", Tries: 1, Continued: c,
		Inputs: projects.Inputs{Config: cfg, Snapshot: &projects.Snapshot{Outline: projects.Outline{ResumeOnCrash: resume}}},
	})
}

func turn(step int, wait bool, calls ...string) contract.TurnDone {
	t := contract.TurnDone{Wait: wait, Turn: contract.Turn{Step: step}}
	for _, id := range calls {
		t.Blocks = append(t.Blocks, llm.Block{Call: &llm.ToolCall{ID: id, Name: "n", Input: "{}"}})
	}
	return t
}

func result(step int, id string) contract.ToolFinished {
	return contract.ToolFinished{
		Step: step, Result: llm.ToolResult{CallID: id, Content: "of " + id},
		Audit: []contract.Record{{Type: "tool.called"}},
	}
}
