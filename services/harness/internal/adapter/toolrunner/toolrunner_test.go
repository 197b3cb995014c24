package toolrunner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/services/harness/internal/core/loop"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a tool runner with the test's answers.
type fake struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	lists int
	run   func(*toolrunnerv1.RunToolRequest, grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent]) error
	// cancel is called by CancelTool, and has to make run end. If it is nil, the tool runner knows no such call.
	cancel  func()
	holdRun func(*toolrunnerv1.HoldRunRequest, grpc.ServerStreamingServer[toolrunnerv1.HoldRunEvent]) error
	hold    func(*toolrunnerv1.HoldCageRequest, grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent]) error
}

func (f *fake) HoldCage(
	req *toolrunnerv1.HoldCageRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent],
) error {
	return f.hold(req, stream)
}

func (f *fake) HoldRun(
	req *toolrunnerv1.HoldRunRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldRunEvent],
) error {
	return f.holdRun(req, stream)
}

func (f *fake) CancelTool(
	_ context.Context, req *toolrunnerv1.CancelToolRequest,
) (*toolrunnerv1.CancelToolResponse, error) {
	if f.cancel == nil || req.GetSessionId() != "s" || req.GetCallId() != "c" {
		return nil, fault.New(fault.NotFound, "There is none.")
	}
	f.cancel()
	return &toolrunnerv1.CancelToolResponse{}, nil
}

func (f *fake) ListTools(context.Context, *toolrunnerv1.ListToolsRequest) (*toolrunnerv1.ListToolsResponse, error) {
	f.lists++
	schema, err := structpb.NewStruct(map[string]any{
		"type": "object", "required": []any{"b", "a"}, "properties": map[string]any{"b": true, "a": 1},
	})
	return &toolrunnerv1.ListToolsResponse{Tools: []*toolrunnerv1.Tool{
		{
			Name: "file.read", Description: "Reads.", InputSchema: schema, Parallel: true, DefaultRoot: true,
			Category: toolrunnerv1.Category_CATEGORY_READ,
			Aliases:  []*toolrunnerv1.ToolAlias{{Name: "read", Description: "Reads, too.", InputSchema: schema}},
		},
		{
			Name: "x.y", RootOnly: true, Category: toolrunnerv1.Category_CATEGORY_WRITE,
			ReadWhen: []*toolrunnerv1.ReadWhen{
				{Parameters: []*toolrunnerv1.ParameterMatch{{Parameter: "a", Values: []string{"b"}}, {Parameter: "c"}}},
			},
			WaitWhen: []*toolrunnerv1.ReadWhen{{Parameters: []*toolrunnerv1.ParameterMatch{{Parameter: "d"}}}},
		},
	}}, err
}

func (f *fake) RunTool(
	req *toolrunnerv1.RunToolRequest, stream grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent],
) error {
	return f.run(req, stream)
}

func open(t *testing.T, f *fake, ttl time.Duration) loop.Tools {
	t.Helper()
	tools, err := serve(t, f, ttl).Open("")
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// serve returns the workspaces of a harness, all with one tool runner.
func serve(t *testing.T, f toolrunnerv1.ToolRunnerServiceServer, ttl time.Duration) *Workspaces {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(rpc.ServerOptions(slog.New(slog.NewTextHandler(io.Discard, nil)))...)
	toolrunnerv1.RegisterToolRunnerServiceServer(srv, f)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///x", append(rpc.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))...)
	if err != nil {
		t.Fatal(err)
	}
	w := New(func(workspace string) (toolrunnerv1.ToolRunnerServiceClient, error) {
		if workspace != "" {
			return nil, errors.New("no such place")
		}
		return toolrunnerv1.NewToolRunnerServiceClient(conn), nil
	}, ttl)
	t.Cleanup(func() {
		w.Close()
		conn.Close()
		srv.Stop()
		<-done
	})
	return w
}

// The catalogue is decoded unchanged, with sorted keys in its schemas, and is asked for again only after its time to
// live.
func TestCatalogue(t *testing.T) {
	f := &fake{}
	tools := open(t, f, time.Hour)
	got, err := tools.Catalogue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schema := []byte(`{"properties":{"a":1,"b":true},"required":["b","a"],"type":"object"}`)
	want := catalogue.Tools{
		{
			Name: "file.read", Description: "Reads.", Schema: schema, Parallel: true, DefaultRoot: true,
			Aliases: []catalogue.Alias{{Name: "read", Description: "Reads, too.", Schema: schema}},
		},
		{
			Name: "x.y", RootOnly: true, Writes: true, Schema: []byte(`{"type":"object"}`),
			ReadWhen: toolcall.When{{{Parameter: "a", Values: []string{"b"}}, {Parameter: "c"}}},
			WaitWhen: toolcall.When{{{Parameter: "d"}}},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := tools.Catalogue(t.Context()); err != nil || f.lists != 1 {
		t.Error(err, f.lists)
	}
	old := open(t, f, 0)
	for range 2 {
		if _, err := old.Catalogue(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if f.lists != 3 {
		t.Errorf("asked %d times", f.lists)
	}
}

func send(stream grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent], text string) error {
	return stream.Send(&toolrunnerv1.RunToolEvent{
		Event: &toolrunnerv1.RunToolEvent_Output{Output: &toolrunnerv1.ToolOutput{Stream: "stderr", Text: text}},
	})
}

// A call is sent with all details of its caller. Its output arrives in order, followed by the result and the records.
func TestRun(t *testing.T) {
	var got *toolrunnerv1.RunToolRequest
	payload, err := structpb.NewStruct(map[string]any{"a": 1.0})
	if err != nil {
		t.Fatal(err)
	}
	tools := open(t,
		&fake{run: func(
			req *toolrunnerv1.RunToolRequest, stream grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent],
		) error {
			got = req
			if err := errors.Join(send(stream, "one"), send(stream, "two")); err != nil {
				return err
			}
			return stream.Send(&toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Result{
				Result: &toolrunnerv1.ToolResult{
					Content: "{}", Error: fault.New(fault.FileNotFound, "Gone.").Proto(), DurationMs: 7,
					Audit: []*commonv1.AuditRecord{{EventType: "tool.called", Ts: 9, AgentPath: "primary", Payload: payload}},
				},
			}})
		}}, time.Hour)
	output := ""
	out, err := tools.Run(t.Context(), loop.ToolRequest{
		CallID: "c", Tool: "file.read", Input: "{}",
		Context: &contract.Caller{
			SessionID: "s", RunID: "r", RequestID: "q", Agent: "primary", ProjectID: "p", Root: "/p", OperatorID: "o",
			Cage: &dsl.Cage{State: "ephemeral"}, Tools: []string{"file.read"},
		},
	}, func(stream, text string) { output += stream + ":" + text + " " })
	if err != nil || output != "stderr:one stderr:two " {
		t.Fatal(err, output)
	}
	want := loop.ToolOutcome{
		Content: "{}", Err: fault.New(fault.FileNotFound, "Gone."), Duration: 7 * time.Millisecond,
		Audit: []contract.Record{{Type: "tool.called", At: 9, Agent: "primary", Payload: map[string]any{"a": 1.0}}},
	}
	if d := cmp.Diff(want, out); d != "" {
		t.Error(d)
	}
	c := got.GetContext()
	if got.GetCallId() != "c" || c.GetCaller() != "primary" || c.GetCage().GetState() != "ephemeral" ||
		c.GetOperatorId() != "o" || len(c.GetTools()) != 1 {
		t.Errorf("%v", got)
	}
}

// A caller that leaves cancels its call and gets the records of its effects. It does not wait for an unknown call.
func TestCancel(t *testing.T) {
	for name, known := range map[string]bool{"known": true, "unknown": false} {
		t.Run(name, func(t *testing.T) {
			cancelled := make(chan struct{})
			f := &fake{run: func(
				_ *toolrunnerv1.RunToolRequest, stream grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent],
			) error {
				if err := send(stream, "running"); err != nil {
					return err
				}
				select {
				case <-cancelled:
				case <-stream.Context().Done():
					return stream.Context().Err()
				}
				return stream.Send(&toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Result{
					Result: &toolrunnerv1.ToolResult{
						Content: "{}", Error: fault.New(fault.Cancelled, "Cancelled.").Proto(),
						Audit: []*commonv1.AuditRecord{{EventType: "shell.executed"}},
					},
				}})
			}}
			if known {
				f.cancel = func() { close(cancelled) }
			}
			ctx, leave := context.WithCancel(t.Context())
			out, err := open(t, f, time.Hour).Run(ctx, loop.ToolRequest{
				CallID: "c", Context: &contract.Caller{SessionID: "s"},
			}, func(string, string) { leave() })
			if !errors.Is(err, fault.Cancelled) {
				t.Errorf("error %v", err)
			}
			if known != (len(out.Audit) == 1) {
				t.Errorf("records %+v", out.Audit)
			}
			if _, err := open(t, f, time.Hour).Run(ctx, loop.ToolRequest{Context: &contract.Caller{}},
				nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a call of one who has left: %v", err)
			}
		})
	}
}

// The error of a call without a result depends on whether the tool had written output.
func TestBrokenCalls(t *testing.T) {
	unavailable := fault.New(fault.Unavailable, "Stopping.")
	for name, tt := range map[string]struct {
		run  func(*toolrunnerv1.RunToolRequest, grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent]) error
		want fault.Code
	}{
		"refused": {func(*toolrunnerv1.RunToolRequest, grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent]) error {
			return unavailable
		}, fault.Unavailable},
		"gone while it wrote": {func(
			_ *toolrunnerv1.RunToolRequest, stream grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent],
		) error {
			return errors.Join(send(stream, "a"), unavailable)
		}, fault.Interrupted},
		"ended": {func(*toolrunnerv1.RunToolRequest, grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent]) error {
			return nil
		}, fault.Interrupted},
		"a panic": {func(*toolrunnerv1.RunToolRequest, grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent]) error {
			panic("x")
		}, fault.Internal},
	} {
		tools := open(t, &fake{run: tt.run}, time.Hour)
		_, err := tools.Run(t.Context(), loop.ToolRequest{Context: &contract.Caller{}}, func(string, string) {})
		if fault.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := New(func(string) (toolrunnerv1.ToolRunnerServiceClient, error) { return nil, errors.New("no") }, 0)
	if _, err := w.Open("x"); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

// A cage is requested with all settings of its agent, and its events arrive in order up to its end.
func TestHold(t *testing.T) {
	var got *toolrunnerv1.HoldCageRequest
	tools := open(t,
		&fake{hold: func(
			req *toolrunnerv1.HoldCageRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent],
		) error {
			got = req
			for _, e := range []*toolrunnerv1.HoldCageEvent{
				{
					Event: &toolrunnerv1.HoldCageEvent_Opened{
						Opened: &toolrunnerv1.CageOpened{CageId: "c", Tier: "userns", BestEffort: []string{"b"}, Summary: "s"},
					},
				},
				{}, // of an unknown kind
				{
					Event: &toolrunnerv1.HoldCageEvent_Network{
						Network: &commonv1.NetworkAttempt{At: 5, Target: "t", Allowed: true, Rule: "r"},
					},
				},
				{Event: &toolrunnerv1.HoldCageEvent_Ended{Ended: &toolrunnerv1.CageEnded{Reason: "walltime"}}},
			} {
				if err := stream.Send(e); err != nil {
					return err
				}
			}
			return nil
		}}, time.Hour)
	cage, err := tools.Hold(t.Context(), "id", &contract.Caller{
		SessionID: "s", RunID: "r", Agent: "primary", Root: "/p", Cage: &dsl.Cage{State: "ephemeral"},
	})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := cage.Opened()
	if d := cmp.Diff(contract.Cage{
		ID: "c", Tier: "userns", BestEffort: []string{"b"}, Summary: "s",
	}, opened); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, want := range []contract.CageEvent{
		{Network: &contract.Attempt{At: 5, Target: "t", Allowed: true, Rule: "r", Count: 1}}, {Ended: "walltime"},
	} {
		if e, err := cage.Next(); err != nil || !cmp.Equal(e, want) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if _, err := cage.Next(); err == nil {
		t.Error("something came after the end")
	}
	if c := got.GetContext(); got.GetCageId() != "id" || c.GetSessionId() != "s" || c.GetCaller() != "primary" ||
		c.GetProjectRoot() != "/p" || c.GetCage().GetState() != "ephemeral" {
		t.Errorf("%v", got)
	}
}

// A cage that cannot be made, or that ends at once, is an error with a code.
func TestHoldIsRefused(t *testing.T) {
	for want, hold := range map[fault.Code]func(
		*toolrunnerv1.HoldCageRequest, grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent],
	) error{
		fault.CagePolicyInvalid: func(
			*toolrunnerv1.HoldCageRequest, grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent],
		) error {
			return fault.New(fault.CagePolicyInvalid, "There is no ./src.")
		},
		fault.Interrupted: func(*toolrunnerv1.HoldCageRequest, grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent]) error {
			return nil
		},
		fault.CageUnavailable: func(
			_ *toolrunnerv1.HoldCageRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent],
		) error {
			return stream.Send(&toolrunnerv1.HoldCageEvent{
				Event: &toolrunnerv1.HoldCageEvent_Ended{Ended: &toolrunnerv1.CageEnded{Reason: "lost"}},
			})
		},
	} {
		if _, err := open(t, &fake{hold: hold}, time.Hour).
			Hold(t.Context(), "id", &contract.Caller{}); fault.CodeOf(err) != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A run is held again after the loss of its tool runner, until the run's end. A tool runner that refuses the hold is
// not asked again.
func TestHoldRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails error
		tries int
	}{
		"lost":    {fault.New(fault.Unavailable, "restarting"), 3},
		"refused": {fault.New(fault.BadRequest, "no run"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tries, known := 0, 0
			f := &fake{holdRun: func(
				req *toolrunnerv1.HoldRunRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldRunEvent],
			) error {
				if tries++; tries == 3 || req.GetContext().GetRunId() != "r" {
					defer cancel()
				}
				opened := &toolrunnerv1.HoldRunEvent{Event: &toolrunnerv1.HoldRunEvent_Opened{Opened: &toolrunnerv1.RunOpened{}}}
				if err := stream.Send(opened); tries < 2 && err == nil {
					return nil // the end of a stream is also a loss
				}
				return c.fails
			}}
			if name == "refused" {
				f.holdRun = func(*toolrunnerv1.HoldRunRequest, grpc.ServerStreamingServer[toolrunnerv1.HoldRunEvent]) error {
					tries++
					return c.fails
				}
			}
			caller := &contract.Caller{SessionID: "s", RunID: "r"}
			open(t, f, time.Minute).HoldRun(ctx, caller, func() { known++ }, func(contract.DebugEvent) {})
			if tries != c.tries || known != 1 {
				t.Errorf("got %d tries and known %d times, want %d and 1", tries, known, c.tries)
			}
		})
	}
}
