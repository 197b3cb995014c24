package harness

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/rpc"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a harness whose Run is a function of the test.
type script struct {
	harnessv1.UnimplementedHarnessServiceServer
	run func(grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error
}

func (s *script) Run(stream grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error {
	return s.run(stream)
}

func connect(
	t *testing.T, run func(grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error,
) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(rpc.ServerOptions(slog.New(slog.DiscardHandler))...)
	harnessv1.RegisterHarnessServiceServer(server, &script{run: run})
	done := make(chan struct{})
	if run != nil {
		go func() { defer close(done); server.Serve(listener) }()
	} else {
		close(done)
	}
	conn, err := grpc.NewClient("passthrough:///memory", append(rpc.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if run == nil {
				return nil, errors.New("no harness")
			}
			return listener.DialContext(ctx)
		}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); server.Stop(); <-done })
	return conn
}

func spec(t *testing.T, root *harnessv1.AgentNode) runs.Start {
	t.Helper()
	compiled, err := proto.Marshal(&harnessv1.CompiledProject{Project: "music", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := localconfig.NewFile("", 1<<20, slog.New(slog.DiscardHandler)).Config(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	return runs.Start{Spec: runs.Spec{
		Session: record.Session{
			ID: "s", Owner: "ada", ProjectID: "music", ProjectPath: "/music", AuditHead: contract.AuditHead{Hash: "h", Items: 2},
			Overrides: record.Overrides{MaxSteps: 3, MaxOutputTokens: 77},
		},
		Run: record.Run{ID: "r", MessageID: "m"}, RequestID: "q",
		Inputs: projects.Inputs{
			Snapshot: &projects.Snapshot{Hash: "x", Compiled: compiled}, Config: cfg, Prompts: map[string]string{"p.md": "Hi."},
		},
	}}
}

// everyEvent returns an event of each type that the test checks, and one without a known type.
func everyEvent() []*harnessv1.RunEvent {
	return []*harnessv1.RunEvent{
		{
			Event: &harnessv1.RunEvent_MessageStart{
				MessageStart: &harnessv1.MessageStart{Provider: "p", Model: "o", Driver: "rehearsal", StartedAt: 5},
			},
		},
		{}, // of an unknown type
		{
			Event: &harnessv1.RunEvent_Delta{Delta: &harnessv1.Delta{Kind: harnessv1.DeltaKind_DELTA_KIND_THINKING, Text: "hm"}},
		},
		{
			Event: &harnessv1.RunEvent_ToolCall{
				ToolCall: &harnessv1.ToolCallStarted{Step: 1, Call: &harnessv1.ToolCall{Id: "c", Name: "n", Input: "{}"}},
			},
		},
		{
			Event: &harnessv1.RunEvent_ToolOutput{
				ToolOutput: &harnessv1.ToolCallOutput{ToolCallId: "c", Stream: "stdout", Text: "x"},
			},
		},
		{Event: &harnessv1.RunEvent_ToolResult{ToolResult: &harnessv1.ToolCallFinished{
			Step: 1, Result: &harnessv1.ToolResult{ToolCallId: "c", Content: "out", DurationMs: 4}, Input: "{}",
			Audit: []*commonv1.AuditRecord{{EventType: "tool.called", Ts: 1}},
		}}},
		{Event: &harnessv1.RunEvent_AuditHead{AuditHead: &harnessv1.AuditHead{Hash: "h2", Items: 9}}},
		{
			Event: &harnessv1.RunEvent_Retry{
				Retry: &harnessv1.Retry{
					Error: &commonv1.Error{Code: commonv1.ErrorCode_ERROR_CODE_PROVIDER_RATE_LIMITED, Message: "Slow."}, Attempt: 1,
					DelayMs: 5, Provider: "p", Model: "o",
				},
			},
		},
		{Event: &harnessv1.RunEvent_Approval{Approval: &harnessv1.ApprovalRequested{
			ApprovalId: "a", ToolCallId: "c", Step: 1, Audit: []*commonv1.AuditRecord{{EventType: "tool.called", Ts: 1}},
			Subject: &commonv1.ApprovalSubject{
				Tool: "t", AgentPath: "primary", Reasons: []string{"r"}, Command: "x", Cwd: "./", Paths: []string{"./p"},
				Preview: "+d",
			},
		}}},
		{Event: &harnessv1.RunEvent_StepDone{StepDone: &harnessv1.StepDone{Step: 1}}},
	}
}

// playRun is a harness that sends events once the run may begin, and ends it after the eighth request. It appends
// the types of the requests to asked.
func playRun(t *testing.T, events []*harnessv1.RunEvent, asked *[]string) *grpc.ClientConn {
	detail, _ := structpb.NewStruct(map[string]any{"status": 503.0})
	return connect(t, func(stream grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error {
		for len(*asked) < 8 {
			req, err := stream.Recv()
			if err != nil {
				return err
			}
			*asked = append(*asked, strings.TrimPrefix(strings.Fields(req.String())[0], " "))
			if s := req.GetStart(); s != nil && (s.GetMaxSteps() != 3 || s.GetMaxOutputTokens() != 77 ||
				s.GetAuditHead().GetItems() != 2 || !s.GetNoSandbox()) {
				t.Errorf("start = %v", s)
			}
			if req.GetGo() != nil {
				for _, ev := range events {
					if err := stream.Send(ev); err != nil {
						return err
					}
				}
			}
		}
		return stream.Send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Finished{Finished: &harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_FAILED, Error: &commonv1.Error{
				Code: commonv1.ErrorCode_ERROR_CODE_PROVIDER_UNREACHABLE, Message: "No.",
			},
			Detail: detail, ClosingText: "bye",
		}}})
	})
}

// A run starts with all its inputs, its events arrive with their types, and answers and the cancellation reach the
// harness.
func TestRun(t *testing.T) {
	t.Parallel()
	events := everyEvent()
	var asked []string
	conn := playRun(t, events, &asked)
	s := spec(t, &harnessv1.AgentNode{IncludeToolResultsInContext: true})
	s.Stored = []transcript.Stored{{ID: "m1", Role: llm.RoleUser, Content: "Hi."}}
	stream, err := New(conn, time.Minute, true, nil, anywhere).Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Go(); err != nil {
		t.Fatal(err)
	}
	var got []contract.Event
	for range len(events) - 1 {
		ev, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Event)
	}
	checkEvents(t, got)
	for _, err := range []error{
		stream.Stored(runs.Half{Step: 1}, runs.News{}),
		stream.Stored(runs.Half{Step: 1, Results: true}, runs.News{Steers: []contract.Steer{{
			MessageID: "m",
			Text:      "Stop.",
		}}}),
		stream.Decide("a", contract.Decision{Verdict: contract.Denied, Comment: "no"}), stream.Cancel("enough"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	ev, err := stream.Recv()
	if f, ok := ev.Event.(contract.Finished); err != nil || !ok || f.Outcome != contract.Failed ||
		f.Err.Code != fault.ProviderUnreachable || f.Status() != 503 ||
		f.ClosingText != "bye" || f.Stop != llm.StopError {
		t.Errorf("finished = %#v, %v", ev, err)
	}
	want := []string{
		"start:{run_id:\"r\"", "history:{messages:{role:ROLE_USER", "begin:{hold:true}", "go:{}", "stored:{step:1",
		"stored:{step:1", "decision:{approval_id:\"a\"", "cancel:{reason:\"enough\"}",
	}
	for i := range asked {
		asked[i] = strings.ReplaceAll(asked[i], " ", "")
	}
	if d := cmp.Diff(want, asked); d != "" {
		t.Error(d)
	}
}

// checkEvents compares the converted events with those of everyEvent.
func checkEvents(t *testing.T, got []contract.Event) {
	t.Helper()
	if f, ok := got[8].(contract.StepDone); !ok || f.Step != 1 {
		t.Errorf("the last event is %#v", got[8])
	}
	question := contract.ApprovalRequested{ID: "a", CallID: "c", Subject: contract.Subject{
		Tool: "t", Agent: "primary", Reasons: []string{"r"}, Command: "x", Cwd: "./", Paths: []string{"./p"}, Preview: "+d",
	}}
	if q := got[7].(contract.ApprovalRequested); q.ID != question.ID || q.CallID != question.CallID ||
		!cmp.Equal(q.Subject, question.Subject) || len(q.Audit) != 1 {
		t.Errorf("question = %#v", q)
	}
	if s := got[0].(contract.MessageStart); s != (contract.MessageStart{
		Provider: "p", Model: "o", Driver: "rehearsal", StartedAt: 5,
	}) {
		t.Errorf("start = %#v", s)
	}
	if d := got[1].(contract.Delta); d != (contract.Delta{Text: "hm", Thinking: true}) {
		t.Errorf("delta = %#v", d)
	}
	if r := got[4].(contract.ToolFinished); r.Result.Content != "out" || len(r.Audit) != 1 || r.Result.DurationMS != 4 {
		t.Errorf("result = %#v", r)
	}
	if h := got[5].(contract.AuditMoved); h.Head != (contract.AuditHead{Hash: "h2", Items: 9}) {
		t.Errorf("head = %#v", h)
	}
	if r := got[6].(contract.Retry); r.Err.Code != fault.ProviderRateLimited || r.DelayMS != 5 {
		t.Errorf("retry = %#v", r)
	}
}

// Start waits for an unreachable harness and then fails.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	conn := connect(t, nil)
	_, err := New(conn, 50*time.Millisecond, false, nil, anywhere).Start(t.Context(), spec(t, &harnessv1.AgentNode{}))
	// H-ARCH-01, like TestUnknownWorkspace and TestBrokenConnections for other subsystems.
	if f := fault.From(err); f.Code != fault.Unavailable || f.Details["subsystem"] != "harness" {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = New(conn, time.Minute, false, nil, anywhere).Start(ctx, spec(t, &harnessv1.AgentNode{}))
	if fault.CodeOf(err) != fault.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// The error of a harness that ends the stream before the run begins is returned.
func TestRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, func(grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error {
		return fault.New(fault.PayloadTooLarge, "Too much.")
	})
	stream, err := New(conn, time.Minute, false, nil, anywhere).Start(t.Context(), spec(t, &harnessv1.AgentNode{}))
	if err == nil {
		_, err = stream.Recv()
	}
	if fault.CodeOf(err) != fault.PayloadTooLarge {
		t.Errorf("err = %v", err)
	}
}

// A conversation is sent in pieces of about a megabyte. A message of results that is larger than that is split
// between results. No message is lost or reordered.
func TestPieces(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", chunk*2/3)
	message := func(role llm.Role, blocks ...llm.Block) transcript.Message {
		return transcript.Message{Message: llm.Message{Role: role, Blocks: blocks}}
	}
	text := func(s string) llm.Block { return llm.Block{Text: &llm.Text{Text: s}} }
	result := func(id string) llm.Block { return llm.Block{Result: &llm.ToolResult{CallID: id, Content: big}} }
	history := []transcript.Message{
		message(llm.RoleUser, text("a")), message(llm.RoleAssistant, text(big)),
		message(llm.RoleTool, result("1"), result("2"), result("3")),
		message(llm.RoleAssistant, text(big+big)), message(llm.RoleUser, text("b")),
	}
	var roles []string
	for _, piece := range pieces(history) {
		size := 0
		for _, m := range piece {
			size += proto.Size(m)
			roles = append(roles, strings.ToLower(strings.TrimPrefix(m.GetRole().String(), "ROLE_")))
		}
		if size > chunk+1024 && len(piece) > 1 {
			t.Errorf("a piece of %d messages has %d bytes", len(piece), size)
		}
	}
	if d := cmp.Diff([]string{"user", "assistant", "tool", "tool", "tool", "assistant", "user"}, roles); d != "" {
		t.Error(d)
	}
	if got := pieces(nil); got != nil {
		t.Errorf("an empty history became %v", got)
	}
}

// The step limit of a session overrides the project's and the operator's limits, which otherwise apply.
func TestMaxSteps(t *testing.T) {
	t.Parallel()
	own := int32(7)
	for name, c := range map[string]struct {
		override int32
		root     *harnessv1.AgentNode
		want     *int32
	}{
		"no limit": {0, &harnessv1.AgentNode{}, nil},
		"project":  {0, &harnessv1.AgentNode{MaxSteps: &own}, nil},
		"session":  {5, &harnessv1.AgentNode{MaxSteps: &own}, proto.Int32(5)},
	} {
		s := spec(t, c.root)
		s.Session.Overrides = record.Overrides{MaxSteps: c.override}
		got := runStart(s, &harnessv1.CompiledProject{Root: c.root}, false)
		if d := cmp.Diff(c.want, got.MaxSteps); d != "" || got.MaxOutputTokens != nil {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A run receives the operator's limit of active agents in a session.
func TestLiveAgents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "local.toml")
	for text, want := range map[string]int32{"": 0, "[limits]\nlive_agents = 3\n": 3} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := localconfig.NewFile(path, 1<<20, slog.New(slog.DiscardHandler)).Config(t.Context(), "ada")
		if err != nil {
			t.Fatal(err)
		}
		s := spec(t, &harnessv1.AgentNode{})
		s.Inputs.Config = cfg
		if got := runStart(s, &harnessv1.CompiledProject{Root: &harnessv1.AgentNode{}}, false).GetLiveAgents(); got != want {
			t.Errorf("%q: the run is told %d, want %d", text, got, want)
		}
	}
}

// anywhere allows runs in every workspace.
func anywhere(context.Context, string, string) error { return nil }
