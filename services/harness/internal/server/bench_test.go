package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/llmproto"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/harness/internal/core/loop"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// world is a set of models, tools and prices without cost, so that only the harness and its gRPC are measured.
type world struct {
	answer func(req llm.Request, yield func(llm.Event, error) bool)
}

func (w world) Open(llm.Target) (llm.Driver, error)                { return w, nil }
func (w world) Cost(llm.Target, llm.Usage) (llm.Cost, bool)        { return llm.Cost{}, false }
func (w world) MaxOutput(llm.Target) int                           { return 0 }
func (w world) Window(llm.Target) int                              { return 0 }
func (w world) Catalogue(context.Context) (catalogue.Tools, error) { return benchCatalogue, nil }
func (w worldSpaces) Open(string) (loop.Tools, error)              { return w.world, nil }
func (w world) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := req.Hold(ctx, llm.Body{}); err != nil {
			yield(llm.Event{}, err)
			return
		}
		w.answer(req, yield)
	}
}

func (w world) Run(context.Context, loop.ToolRequest, func(string, string)) (loop.ToolOutcome, error) {
	return loop.ToolOutcome{Content: benchFile, Audit: []contract.Record{
		{Type: "tool.called", Payload: map[string]any{"tool_name": "file.read", "params": map[string]any{"path": "a"}}},
		{Type: "tool.completed", Payload: map[string]any{"success": true}},
	}}, nil
}

func (world) KeepRun(context.Context, *contract.Caller) error { return nil }

func (w world) HoldRun(ctx context.Context, _ *contract.Caller, known func(), _ func(contract.DebugEvent)) {
	known()
	<-ctx.Done()
}

func (w world) Hold(context.Context, string, *contract.Caller) (loop.Cage, error) {
	return nil, errors.New("there are no cages here")
}

type worldSpaces struct{ world }

var (
	benchFile      = strings.Repeat("a line of a file as it is read\n", 100)
	benchCatalogue = catalogue.Tools{{Name: "file.read", Schema: json.RawMessage(`{"type":"object"}`), Parallel: true}}
)

func benchClient(b testing.TB, w world) harnessv1.HarnessServiceClient {
	b.Helper()
	return clientOf(b, w, w)
}

// clientOf returns a client of a new harness with the given models.
func clientOf(b testing.TB, w world, models loop.Models) harnessv1.HarnessServiceClient {
	b.Helper()
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	listener := bufconn.Listen(256 << 10)
	srv := grpc.NewServer(rpc.ServerOptions(log)...)
	limits := loop.DefaultLimits()
	limits.CallRepeats, limits.CycleRepeats = 1<<20, 1<<20 // the model of a benchmark repeats its calls
	s := New(Deps{
		Limits: limits, Log: log, Workspaces: worldSpaces{w}, Models: models, Prices: w, MaxHistoryBytes: 64 << 20,
		Memories: llm.NewMemories(64 << 20), Keep: KeepLimits{Sessions: 4, Bytes: 64 << 20, For: time.Hour},
	})
	harnessv1.RegisterHarnessServiceServer(srv, s)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///x", append(rpc.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		srv.Stop()
		<-done
		s.Stop()
	})
	return harnessv1.NewHarnessServiceClient(conn)
}

// question is a conversation of one message.
var question = []*harnessv1.Message{
	{Role: harnessv1.Role_ROLE_USER, Blocks: llmproto.Blocks([]llm.Block{{Text: &llm.Text{Text: "Go."}}})},
}

// beginRun opens a run of an agent with one tool, up to its begin.
func beginRun(
	b testing.TB, client harnessv1.HarnessServiceClient, history []*harnessv1.Message,
) harnessv1.HarnessService_RunClient {
	b.Helper()
	stream, err := client.Run(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	start := benchStart()
	for _, req := range []*harnessv1.RunRequest{
		{Request: &harnessv1.RunRequest_Start{Start: start}},
		{Request: &harnessv1.RunRequest_History{History: &harnessv1.History{Messages: history}}},
		{Request: &harnessv1.RunRequest_Begin{Begin: &harnessv1.RunBegin{}}},
	} {
		if err := stream.Send(req); err != nil {
			b.Fatal(err)
		}
	}
	return stream
}

// benchStart returns the start of a run of an agent with one tool.
func benchStart() *harnessv1.RunStart {
	hundred := int32(100)
	return &harnessv1.RunStart{
		RunId: "r", SessionId: "s", MaxSteps: &hundred, Prompts: map[string]string{"p": "You are careful."},
		Compiled: &harnessv1.CompiledProject{
			Root: &harnessv1.AgentNode{Path: "primary", Model: "m", PromptPath: "p", Tools: []string{"file.read"}},
		},
		Routes: map[string]*harnessv1.Route{"m": {Targets: []*harnessv1.Target{{Provider: "p", Model: "m"}}}},
	}
}

// grant grants the model call if the event wants one, and reports whether it does.
func grant(b testing.TB, stream harnessv1.HarnessService_RunClient, ev *harnessv1.RunEvent) bool {
	b.Helper()
	w := ev.GetCallWanted()
	if w == nil {
		return false
	}
	err := stream.Send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Granted{
		Granted: &harnessv1.CallGranted{Call: w.GetCall()},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return true
}

// play plays one run, with the answers of session-manager but without a store, and returns the number of events.
func play(b testing.TB, client harnessv1.HarnessServiceClient, history []*harnessv1.Message) int {
	b.Helper()
	stream := beginRun(b, client, history)
	for n := 1; ; n++ {
		ev, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		if ev.GetStepDone() != nil {
			if err := stream.Send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Stored{Stored: &harnessv1.StepStored{
				Step: ev.GetStepDone().GetStep(), Part: harnessv1.StepPart_STEP_PART_RESULTS,
			}}}); err != nil && !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
		}
		grant(b, stream, ev)
		if f := ev.GetFinished(); f != nil {
			if f.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED {
				b.Fatal(f)
			}
			return n
		}
	}
}

// BenchmarkRound measures one round of tools in a run of a hundred: from the model's answer to its next request. The
// metric beside ns/op is the mean per round.
func BenchmarkRound(b *testing.B) {
	var ended time.Time
	var spent time.Duration
	rounds := 0
	client := benchClient(b, world{answer: func(_ llm.Request, yield func(llm.Event, error) bool) {
		if !ended.IsZero() {
			spent += time.Since(ended)
			rounds++
		}
		if yield(llm.Event{Accepted: &llm.Accepted{}}, nil) {
			ended = time.Now()
			yield(llm.Event{
				Done: &llm.Done{Blocks: []llm.Block{{Call: &llm.ToolCall{Name: "file.read", Input: `{"path":"a"}`}}}},
			}, nil)
		}
	}})
	b.ReportAllocs()
	for b.Loop() {
		ended = time.Time{}
		play(b, client, question)
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(rounds), "µs/round")
}

// BenchmarkBurst measures twenty thousand deltas without a pause, and the number of events for them.
func BenchmarkBurst(b *testing.B) {
	const deltas = 20_000
	client := benchClient(b, world{answer: func(_ llm.Request, yield func(llm.Event, error) bool) {
		for range deltas {
			if !yield(llm.Event{TextDelta: "word "}, nil) {
				return
			}
		}
		yield(llm.Event{Done: &llm.Done{Blocks: []llm.Block{{Text: &llm.Text{Text: "words"}}}}}, nil)
	}})
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		events = play(b, client, question)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
	b.ReportMetric(float64(events), "events/run")
}

// BenchmarkFirstToken measures a whole run of one short answer: the harness's overhead before and after a provider.
func BenchmarkFirstToken(b *testing.B) {
	client := benchClient(b, world{answer: func(_ llm.Request, yield func(llm.Event, error) bool) {
		_ = yield(llm.Event{TextDelta: "word"}, nil) &&
			yield(llm.Event{Done: &llm.Done{Blocks: []llm.Block{{Text: &llm.Text{Text: "word"}}}}}, nil)
	}})
	b.ReportAllocs()
	for b.Loop() {
		play(b, client, question)
	}
}
