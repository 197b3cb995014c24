package harness

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/fakellm"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The harness can be built and dropped, and it starts and stops twice on the same data without leaving a goroutine.
func TestLifecycle(t *testing.T) {
	dir := t.TempDir()
	testkit.Lifecycle(t, Module, func() host.Options {
		o := testkit.Options(t)
		o.DataDir = testkit.Own(t, dir)
		return o
	})
}

// A value that would make every run fail is refused with its key.
func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for key, change := range map[string]func(*Config){
		"catalogue_ttl":     func(c *Config) { c.CatalogueTTL = -1 },
		"max_history_bytes": func(c *Config) { c.MaxHistoryBytes = 0 },
		"connect_timeout":   func(c *Config) { c.ConnectTimeout = 0 },
		"model_longest":     func(c *Config) { c.ModelLongest = 0 },
		"model_idle":        func(c *Config) { c.ModelIdle = 0 },
		"max_answer_bytes":  func(c *Config) { c.MaxAnswerBytes = 0 },
		"retry_tries":       func(c *Config) { c.RetryTries = 0 },
		"retry_delay":       func(c *Config) { c.RetryDelay = 0 },
		"retry_longest":     func(c *Config) { c.RetryLongest = c.RetryDelay - 1 },
		"parallel_tools":    func(c *Config) { c.ParallelTools = 0 },
		"parallel_agents":   func(c *Config) { c.ParallelAgents = 0 },
		"turn_agents":       func(c *Config) { c.TurnAgents = 0 },
		"loop_calls":        func(c *Config) { c.LoopCalls = 1 },
		"loop_cycles":       func(c *Config) { c.LoopCycles = 1 },
		"live_agents":       func(c *Config) { c.LiveAgents = 0 },
		"cage_leave":        func(c *Config) { c.CageLeave = 0 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	c := DefaultConfig()
	if c.MaxAnswerBytes++; c.Validate() == nil || !strings.Contains(c.Validate().Error(), "at most 16777216") {
		t.Errorf("an answer larger than one message: %v", c.Validate())
	}
}

// A complete run in each wire format: the model calls a tool, the tool runner runs it, and the model answers with its
// result.
func TestRun(t *testing.T) {
	for _, driver := range []string{"anthropic", "google", "openai", "openai-chat"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.model.Script(fakellm.Steps(
				fakellm.Step{
					fakellm.GotSystem("You are careful."), fakellm.GotTool("file.read"), fakellm.Tool("file.read", `{"path":"a"}`),
				},
				fakellm.Step{fakellm.GotResult(`read {"path":"a"}`), fakellm.Tool("file.write", `{"path":"a"}`)},
				fakellm.Step{fakellm.GotResult(`wrote {"path":"a"}`), fakellm.Say("Done.")},
			))
			w := r.begin(t.Context(), r.start(driver))
			fin := w.finish(t)
			if fin.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED ||
				fin.GetStopReason() != harnessv1.StopReason_STOP_REASON_STOP ||
				fin.GetSteps() != 3 || fin.GetError() != nil || fin.GetStats().GetCost() != nil || fin.GetUsage().GetOutput() == 0 {
				t.Errorf("%v", fin)
			}
			const want = "MessageStart Turn ToolCall ToolOutput ToolResult StepDone Turn ToolCall ToolOutput ToolResult " +
				"StepDone delta Turn Finished"
			if got := w.story(); got != want {
				t.Errorf("story is %s", got)
			}
			if n := r.model.Unplayed(); n != 0 {
				t.Errorf("%d steps were not played", n)
			}
			call := r.tools.seen[0]
			if c := call.GetContext(); c.GetCaller() != "primary" || c.GetProjectRoot() != "/demo" ||
				c.GetOperatorId() != "me" || len(c.GetTools()) != 2 {
				t.Errorf("%v", call)
			}
		})
	}
}

// A connection that breaks during an answer is opened again in each wire format. The text is retracted, and the
// turn's usage includes both attempts.
func TestABrokenAnswerIsAskedForAgain(t *testing.T) {
	for _, driver := range []string{"anthropic", "google", "openai", "openai-chat"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.model.Script(fakellm.Steps(
				fakellm.Step{fakellm.Deltas(100, 20, 0), fakellm.Cut(4000)},
				fakellm.Step{fakellm.Usage(llm.Usage{Input: 7, Output: 3}), fakellm.Say("Done.")},
			))
			w := r.begin(t.Context(), r.start(driver))
			fin := w.finish(t)
			got := strings.Join(slices.Compact(strings.Fields(w.story())), " ") // a busy machine sees more deltas
			if got != "MessageStart delta Retracted Retry delta Turn Finished" {
				t.Errorf("story is %s", got)
			}
			u := fin.GetUsage()
			if fin.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED || u.GetInput() <= 7 || u.GetOutput() <= 3 {
				t.Errorf("%v", fin)
			}
		})
	}
}

// A cancel in mid-answer ends the provider's request, and the received part is kept (H-CANCEL-01).
func TestCancelReachesTheProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Say("Half"), fakellm.Hang()}))
	w := r.begin(t.Context(), r.start("anthropic"))
	w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetDelta() != nil })
	if err := w.stream.Send(cancelRequest); err != nil {
		t.Fatal(err)
	}
	fin := w.finish(t)
	if fin.GetOutcome() != harnessv1.Outcome_OUTCOME_CANCELLED ||
		fin.GetStopReason() != harnessv1.StopReason_STOP_REASON_ABORTED ||
		fin.GetError() != nil || fin.GetDetail().GetFields()["reason"].GetStringValue() != "enough" {
		t.Errorf("%v", fin)
	}
	text := ""
	for _, b := range fin.GetPartial() {
		text += b.GetText().GetText()
	}
	if text == "" || !strings.HasPrefix("Half", text) {
		t.Errorf("kept %q", text)
	}
	if _, err := r.model.WaitFinished(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// A run on hold is prepared up to its first request. The request's record is sent and granted, and the model is
// called only after the go. A run that is abandoned on hold never calls the model.
func TestHold(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"anthropic", "google", "openai", "openai-chat"} {
		r := newRig(t)
		r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Say("Done.")}))
		for want, last := range map[harnessv1.Outcome]func(*watched) error{
			harnessv1.Outcome_OUTCOME_FAILED:    func(w *watched) error { return w.stream.CloseSend() },
			harnessv1.Outcome_OUTCOME_CANCELLED: func(w *watched) error { return w.stream.Send(cancelRequest) },
		} {
			w := r.open(t.Context(), r.start(driver), &harnessv1.RunBegin{Hold: true})
			w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetCallWanted() != nil })
			if err := last(w); err != nil {
				t.Fatal(err)
			}
			if fin := w.finish(t); fin.GetOutcome() != want {
				t.Errorf("%s: %v", driver, fin)
			}
		}
		w := r.open(t.Context(), r.start(driver), &harnessv1.RunBegin{Hold: true})
		w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetCallWanted() != nil })
		if n := len(r.model.Requests()); n != 0 {
			t.Errorf("%s: %d requests were sent on hold", driver, n)
		}
		if err := w.stream.Send(goRequest); err != nil {
			t.Fatal(err)
		}
		if fin := w.finish(t); fin.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED || len(r.model.Requests()) != 1 {
			t.Errorf("%s: %v after %d requests", driver, fin, len(r.model.Requests()))
		}
	}
}

// If the caller leaves, the running tool ends (H-CANCEL-02).
func TestEndOfStreamReachesTheTool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("file.write", `{}`)}))
	ended := make(chan error, 1)
	r.tools.run["file.write"] = func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := r.begin(ctx, r.start("openai"))
	w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetToolOutput() != nil })
	cancel()
	select {
	case <-ended:
	case <-t.Context().Done():
		t.Error("the tool runs on")
	}
}

// A stopping service lets a run end at its next step boundary, with its results sent, and refuses new runs.
func TestDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("file.write", `{}`)}))
	running, release := make(chan struct{}), make(chan struct{})
	r.tools.run["file.write"] = func(context.Context, string) (string, error) {
		close(running)
		<-release
		return "written", nil
	}
	w := r.begin(t.Context(), r.start("anthropic"))
	done := make(chan *harnessv1.RunFinished, 1)
	go func() { done <- w.finish(t) }()
	<-running
	service := r.host.Service("harness").(*Service)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		service.Drain(t.Context())
	}()
	for { // Until the drain has started, runs are still accepted.
		stream, err := r.client.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(cancelRequest); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); errors.Is(err, fault.Unavailable) {
			break
		}
	}
	close(release)
	fin := <-done
	<-drained
	if fin.GetOutcome() != harnessv1.Outcome_OUTCOME_HANDED_OVER || fin.GetSteps() != 1 {
		t.Errorf("%v", fin)
	}
	if !strings.Contains(w.story(), "ToolResult StepDone Finished") {
		t.Error(w.story())
	}
}

// A caller that violates the order of requests gets an error. A caller that cancels before the start gets the end of
// the run.
func TestOrderOfRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start := &harnessv1.RunRequest{Request: &harnessv1.RunRequest_Start{Start: r.start("openai")}}
	begin := &harnessv1.RunRequest{Request: &harnessv1.RunRequest_Begin{Begin: &harnessv1.RunBegin{}}}
	zero := int32(0)
	for name, tt := range map[string][]*harnessv1.RunRequest{
		"nothing":          {},
		"begin first":      {begin},
		"two starts":       {start, start},
		"stored before":    {start, stored(1, harnessv1.StepPart_STEP_PART_TURN)},
		"an empty request": {start, {}},
		"no snapshot":      {{Request: &harnessv1.RunRequest_Start{Start: &harnessv1.RunStart{}}}},
		"max_steps of zero": {
			{
				Request: &harnessv1.RunRequest_Start{
					Start: &harnessv1.RunStart{Compiled: r.start("openai").GetCompiled(), MaxSteps: &zero},
				},
			},
		},
		"no output tokens": {
			{
				Request: &harnessv1.RunRequest_Start{
					Start: &harnessv1.RunStart{Compiled: r.start("openai").GetCompiled(), MaxOutputTokens: &zero},
				},
			},
		},
		"history without it": {{Request: &harnessv1.RunRequest_History{History: &harnessv1.History{}}}},
	} {
		stream, err := r.client.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, req := range tt {
			if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, fault.BadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, before := range [][]*harnessv1.RunRequest{{}, {start}} {
		stream, err := r.client.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, req := range append(before, cancelRequest) {
			if err := stream.Send(req); err != nil {
				t.Fatal(err)
			}
		}
		if ev, err := stream.Recv(); err != nil || ev.GetFinished().GetOutcome() != harnessv1.Outcome_OUTCOME_CANCELLED {
			t.Errorf("%v %v", ev, err)
		}
	}
}

// If its caller closes the sending side, a run continues until it needs an answer, and then ends as cancelled.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Say("Done.")}, fakellm.Step{fakellm.Tool("file.write", `{}`)}))
	for _, want := range []harnessv1.Outcome{harnessv1.Outcome_OUTCOME_COMPLETED, harnessv1.Outcome_OUTCOME_CANCELLED} {
		w := r.begin(t.Context(), r.start("openai-chat"))
		w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetCallWanted() != nil })
		if err := w.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		var last *harnessv1.RunEvent
		for {
			ev, err := w.stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			last = ev
		}
		if got := last.GetFinished().GetOutcome(); got != want || len(r.tools.seen) != 0 {
			t.Errorf("%v after %d tools", last, len(r.tools.seen))
		}
	}
}

// If the tool runner is unreachable, runs fail with unavailable and do not hang.
func TestNoToolRunner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start := r.start("openai")
	gone := filepathSocket(t)
	start.Workspace = "unix:" + gone
	w := r.begin(t.Context(), start)
	if fin := w.finish(t); fault.FromProto(fin.GetError()).Code != fault.Unavailable {
		t.Errorf("%v", fin)
	}
}

func filepathSocket(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	path := l.Addr().String()
	l.Close()
	return path
}
