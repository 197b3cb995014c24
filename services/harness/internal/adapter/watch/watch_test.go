package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/pkg/testkit/collector"
	"kaged.dev/services/harness/internal/core/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit returns a Kit that sends spans to a collector, which has them after Stop.
func kit(t *testing.T, prompts bool) (*telemetry.Kit, *collector.Server) {
	t.Helper()
	c := collector.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	k, err := telemetry.Start(t.Context(), telemetry.Options{
		Service: "harness", Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler), Prompts: prompts,
		MetricsListen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	return k, c
}

const (
	question = "What is in my private file?"
	secret   = "sk-abcdefghijklmnopqrstuvwx"
)

// play reports a step of a child, with a call that fails first and a tool, as the loop would.
func play(ctx context.Context, w loop.Watch) {
	ctx, agentOver := w.Agent(ctx, loop.AgentSeen{
		RunID: "R", SessionID: "S", ProjectID: "P", OperatorID: "me", InvocationID: "I",
		Key: "scout", Path: "primary.subagents.scout",
	})
	step, stepOver := w.Step(ctx, 1)
	req := &llm.Request{
		System: []string{"You look."}, Tools: []llm.Tool{{Name: "file.read"}},
		Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: question + " " + secret}}}}},
	}
	target := llm.Target{Provider: "lab", Driver: "google", Model: "m1"}
	agent := loop.AgentSeen{SessionID: "S", RunID: "R", Path: "primary"}
	w.Request(step, loop.RequestSeen{Agent: agent, Step: 1, Request: req})
	_, callOver := w.Call(step, loop.CallSeen{Target: target, Request: req})
	callOver(loop.CallEnd{Err: fault.New(fault.ProviderRateLimited, "Slow down, %s.", question)})
	_, callOver = w.Call(step, loop.CallSeen{Target: target, Request: req})
	ttft, used := 300*time.Millisecond, llm.Usage{Input: 10, CacheRead: 5, Output: 7}
	callOver(loop.CallEnd{
		Done: &llm.Done{Blocks: []llm.Block{{Text: &llm.Text{Text: "I look."}}}, Stop: llm.StopToolUse, Usage: used},
		Used: &used, Cost: &llm.Cost{Total: 0.5}, TTFT: &ttft, Took: time.Second,
	})
	_, toolOver := w.Tool(step, loop.ToolSeen{Name: "file.read", ID: "c1", Input: `{"path":"private"}`})
	toolOver(loop.ToolOutcome{Content: "Found."})
	_, toolOver = w.Tool(step, loop.ToolSeen{ID: "c2", Input: `{}`})
	toolOver(loop.ToolOutcome{Err: fault.New(fault.ToolNotFound, "No.")})
	stepOver(nil)
	agentOver(contract.Finished{Outcome: contract.Completed, Steps: 1})
}

// The spans of a run are nested by the conventions: the agent, its steps, and their requests and tools. They hold
// names, counts and codes, and no text of the conversation (H-OBS-LF-01, H-OBS-LF-02).
func TestSpans(t *testing.T) {
	k, c := kit(t, false)
	play(t.Context(), New(k, slog.New(slog.DiscardHandler)))
	k.Stop()
	names := map[string]string{}
	var tree []string
	for _, s := range c.Spans() {
		names[string(s.GetSpanId())] = s.GetName()
		tree = append(tree, names[string(s.GetParentSpanId())]+" > "+s.GetName()+" "+s.GetStatus().GetMessage())
		if text := s.String(); strings.Contains(text, "private") || strings.Contains(text, "look") {
			t.Errorf("%s holds the conversation: %s", s.GetName(), text)
		}
		if s.Scope != telemetry.AgentScope {
			t.Errorf("%s is of %s", s.GetName(), s.Scope)
		}
	}
	want := []string{
		" > invoke_agent scout ", "invoke_agent scout > step 1 ",
		"step 1 > pre_generation ", "step 1 > chat m1 provider_rate_limited", "step 1 > chat m1 ",
		"step 1 > execute_tool file.read ", "step 1 > execute_tool unknown tool_not_found",
	}
	if !slices.Equal(tree, want) {
		t.Errorf("got %q, want %q", tree, want)
	}
	chat := c.Spans()[4]
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "m1",
		"gen_ai.usage.input_tokens": "int_value:15", "gen_ai.usage.output_tokens": "int_value:7",
		"gen_ai.usage.cache_read.input_tokens": "int_value:5", "kaged.cost_usd": "double_value:0.5",
		"gen_ai.response.time_to_first_chunk": "double_value:0.3",
	} {
		if got := strings.ReplaceAll(chat.Attr(key), " ", ""); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	agent := c.Spans()[0]
	if agent.Attr("gen_ai.conversation.id") != "S" || agent.Attr("kaged.run_id") != "R" ||
		agent.Attr("gen_ai.agent.name") != "scout" {
		t.Errorf("%v", agent)
	}
}

// If the operator enables prompts, spans hold the conversation with masked secrets. A long conversation is cut.
func TestPrompts(t *testing.T) {
	k, c := kit(t, true)
	w := New(k, slog.New(slog.DiscardHandler))
	play(t.Context(), w)
	long := &llm.Request{}
	for range 100 {
		long.Messages = append(long.Messages, llm.Message{
			Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: strings.Repeat("long ", 2000)}}},
		})
	}
	_, over := w.Call(t.Context(), loop.CallSeen{Target: llm.Target{Model: "m2"}, Request: long})
	over(loop.CallEnd{Err: fault.New(fault.Cancelled, "No more.")})
	k.Stop()
	spans := c.Spans()
	before, chat, tool, last := spans[2], spans[4], spans[5], spans[len(spans)-1]
	for key, want := range map[string]string{
		"gen_ai.input.messages":      `[{"role":"user","parts":[{"type":"text","content":"` + question + ` [masked]"}]}]`,
		"gen_ai.system_instructions": `[{"type":"text","content":"You look."}]`,
		"gen_ai.output.messages":     `[{"role":"assistant","parts":[{"type":"text","content":"I look."}]}]`,
		"gen_ai.tool.definitions":    `[{"type":"function","name":"file.read"}]`,
	} {
		if got := chat.Attr(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := before.Attr("gen_ai.input.messages"); got == "" || got != chat.Attr("gen_ai.input.messages") {
		t.Errorf("before the call the input was %q", got) // H-PIPE-OBS-01
	}
	arguments, result := tool.Attr("gen_ai.tool.call.arguments"), tool.Attr("gen_ai.tool.call.result")
	if arguments != `{"path":"private"}` || result != "Found." {
		t.Errorf("%v", tool)
	}
	if n := len(last.Attr("gen_ai.input.messages")); n < maxText || n > 16<<10 {
		t.Errorf("a long conversation takes %d bytes", n)
	}
}

// Without a collector, requests are logged if the operator enables prompts, with masked secrets (H-PIPE-OBS-02,
// H-SCOPE-04).
func TestPromptsWithoutACollector(t *testing.T) {
	k, err := telemetry.Start(t.Context(), telemetry.Options{
		Service: "harness", Getenv: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler), Prompts: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	var out bytes.Buffer
	play(t.Context(), New(k, slog.New(slog.NewJSONHandler(&out, nil))))
	var line struct {
		Event    string
		Session  string    `json:"session_id"`
		System   []part    `json:"system_messages"`
		Messages []message `json:"messages"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err, out.String())
	}
	if line.Event != "agent.trace" || line.Session != "S" || line.System[0].Content != "You look." ||
		line.Messages[0].Parts[0].Content != question+" [masked]" {
		t.Errorf("%+v", line)
	}
}

// The metrics count the work that the spans describe.
func TestMetrics(t *testing.T) {
	k, _ := kit(t, false)
	w := New(k, slog.New(slog.DiscardHandler))
	play(t.Context(), w)
	_, over := w.Agent(t.Context(), loop.AgentSeen{Key: "primary"})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + k.MetricsAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	over(contract.Finished{Outcome: contract.Completed})
	for _, want := range []string{
		`kaged_agents 1`, `kaged_delegations_total{outcome="completed"} 1`, `kaged_steps_total{model="m1",provider="lab"} 1`,
		`kaged_tokens_total{kind="cache_read",model="m1",provider="lab"} 5`,
		`kaged_cost_usd_total{model="m1",provider="lab"} 0.5`,
		`kaged_provider_seconds_count{code="provider_rate_limited",model="m1",provider="lab"} 1`,
		`kaged_provider_seconds_sum{code="ok",model="m1",provider="lab"} 1`,
		`kaged_ttft_seconds_sum{model="m1",provider="lab"} 0.3`,
		`kaged_tool_calls_total{code="ok",tool="file.read"} 1`,
		`kaged_tool_calls_total{code="tool_not_found",tool="unknown"} 1`,
	} {
		if !strings.Contains(string(page), "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// Without traces and metrics there is no Watch.
func TestUnwatched(t *testing.T) {
	if w := New(nil, nil); w != nil {
		t.Errorf("%v", w)
	}
}
