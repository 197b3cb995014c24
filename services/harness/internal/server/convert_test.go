package server

import (
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/harness/internal/core"
	"kaged.dev/services/harness/internal/core/loop"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

func text(r *rand.Rand) string {
	return strings.ToValidUTF8(string([]rune{rune(r.Intn(0x10ffff)), 'a', rune(r.Intn(128))}), "?")
}

// randomBlock is a block with exactly one of its fields set.
type randomBlock struct{ llm.Block }

func (randomBlock) Generate(r *rand.Rand, _ int) reflect.Value {
	b := [...]llm.Block{
		{Text: &llm.Text{Text: text(r)}},
		{Thinking: &llm.Thinking{Text: text(r), Opaque: []byte{byte(r.Intn(256)), 0}, Driver: text(r)}},
		{Call: &llm.ToolCall{ID: text(r), Name: text(r), Input: text(r)}},
		{Result: &llm.ToolResult{CallID: text(r), Name: text(r), Content: text(r), IsError: r.Intn(2) == 0}},
	}[r.Intn(4)]
	return reflect.ValueOf(randomBlock{b})
}

// Blocks, thinking's opaque data included, survive the way to session-manager and back, over the wire.
func TestBlocksRoundTrip(t *testing.T) {
	roles := map[llm.Role]harnessv1.Role{}
	for p, r := range rolesFromProto {
		roles[r] = p
	}
	back := func(blocks []randomBlock) bool {
		want := llm.Message{Role: llm.RoleAssistant, Blocks: make([]llm.Block, len(blocks))}
		for i, b := range blocks {
			want.Blocks[i] = b.Block
		}
		data, err := proto.Marshal(&harnessv1.Message{Role: roles[want.Role], Blocks: blocksToProto(want.Blocks)})
		if err != nil {
			return false
		}
		var p harnessv1.Message
		if err := proto.Unmarshal(data, &p); err != nil {
			return false
		}
		got, size := messageFromProto(&p)
		return cmp.Equal(want, got) && size > 0
	}
	if err := quick.Check(back, nil); err != nil {
		t.Error(err)
	}
	if m, _ := messageFromProto(&harnessv1.Message{Role: 99, Blocks: []*harnessv1.Block{{}}}); m.Role != llm.RoleUser || m.Blocks[0].Text == nil {
		t.Errorf("%+v", m)
	}
}

// A snapshot's agents survive the way to session-manager and back.
func TestAgentRoundTrip(t *testing.T) {
	back := func(key, model string, steps, tokens uint16, tools []string, aliases map[string]string, resume, include bool) bool {
		if len(tools) == 0 {
			tools = nil
		}
		want := &core.Agent{
			Key: key, Path: key + ".x", Model: model, PromptPath: key, Description: model, MaxSteps: int(steps),
			MaxOutputTokens: int(tokens), Tools: tools, Aliases: aliases, ResumeOnCrash: resume, IncludeToolResults: include,
		}
		want.Children = []*core.Agent{{Key: model}}
		return cmp.Equal(want, agentFromProto(agentToProto(want)))
	}
	if err := quick.Check(back, nil); err != nil {
		t.Error(err)
	}
	if agentFromProto(agentToProto(nil)) != nil || projectToProto(nil) != nil {
		t.Error("nothing became something")
	}
}

// Routes keep their targets in order, with what cannot be used and why.
func TestRoutes(t *testing.T) {
	got := routesFromProto(map[string]*harnessv1.Route{"smart": {Alias: "smart", Targets: []*harnessv1.Target{
		{Provider: "p", Model: "m", Driver: "openai", ApiKey: "k", BaseUrl: "u", Headers: map[string]string{"a": "b"}, Script: []byte("s")},
		{Provider: "q", Unusable: &commonv1.Error{Code: commonv1.ErrorCode(fault.ProviderNotConfigured), Message: "No key."}},
	}}})
	want := map[string]loop.Route{"smart": {Alias: "smart", Targets: []loop.Target{
		{Target: llm.Target{Provider: "p", Model: "m", Driver: "openai", APIKey: "k", BaseURL: "u", Headers: map[string]string{"a": "b"}, Script: []byte("s")}},
		{Target: llm.Target{Provider: "q"}, Unusable: fault.New(fault.ProviderNotConfigured, "No key.")},
	}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Every event of the loop has its message, and so has every end.
func TestEvents(t *testing.T) {
	ttft := 1500 * time.Microsecond
	stats := loop.Stats{TTFT: &ttft, Duration: 2 * time.Second, TPS: 3, Cost: &loop.Cost{Input: 1, Total: 1}}
	at := time.UnixMilli(12)
	failure := fault.New(fault.ProviderUnreachable, "x").With("status", 500)
	for _, e := range []loop.Event{
		loop.MessageStart{Target: llm.Target{Provider: "p", Model: "m", Driver: "d"}, StartedAt: at},
		loop.Delta{Text: "a"},
		loop.Delta{Thinking: true, Text: "a"},
		loop.ToolStarted{Step: 1, Call: llm.ToolCall{ID: "c"}},
		loop.ToolOutput{CallID: "c", Stream: "stdout", Text: "a"},
		loop.ToolFinished{
			Step: 1, Input: "{}", Result: llm.ToolResult{CallID: "c", IsError: true}, Err: failure,
			Audit: []loop.Record{{Type: "tool.called", At: at, Payload: map[string]any{"a": []any{1, "b", nil}}}}, Duration: time.Second,
		},
		loop.Turn{Step: 1, Stop: llm.StopToolUse, Stats: stats, Wait: true},
		loop.StepDone{Step: 1},
		loop.Record{Type: "x", At: at, AgentPath: "primary"},
		loop.Retry{Err: failure, Attempt: 2, Delay: time.Second, Next: llm.Target{Provider: "q"}},
		loop.AuditMoved{Head: loop.AuditHead{Hash: "h", Items: 3}},
		loop.CageChanged{Status: loop.Caged, Tier: "userns", Audit: loop.Record{Type: "cage.opened", At: at, Payload: map[string]any{"best_effort": []any{"b"}}}},
		loop.NetworkTried{Attempt: loop.Attempt{At: at, Target: "t", Count: 2}, Audit: loop.Record{Type: "net.denied", At: at, Payload: map[string]any{"count": int64(2)}}},
	} {
		ev, err := eventToProto(e)
		if err != nil || ev.GetEvent() == nil {
			t.Errorf("%T: %v %v", e, ev, err)
		}
		if s := ev.GetTurn().GetStats(); s != nil && (s.GetTtftMs() != 1.5 || s.GetDurationMs() != 2000 || s.GetCost().GetTotal() != 1) {
			t.Errorf("%v", s)
		}
	}
	if ev, err := eventToProto(loop.Record{Payload: map[string]any{"a": make(chan int)}}); err != nil || ev.GetAudit().GetPayload().GetFields()["a"].GetStringValue() == "" {
		t.Errorf("got record %v and error %v, want the value as a text", ev, err)
	}
	if _, err := eventToProto(nil); fault.CodeOf(err) != fault.Internal {
		t.Error(err)
	}
	for outcome := range outcomesToProto {
		ev := finishedToProto(loop.Finished{Outcome: outcome, Stop: llm.StopError, Err: failure, Detail: map[string]any{"status": 500}})
		if f := ev.GetFinished(); f.GetOutcome() == 0 || f.GetStopReason() != harnessv1.StopReason_STOP_REASON_ERROR || f.Stats != nil ||
			f.GetError().GetMessage() != "x" || f.GetDetail().GetFields()["status"].GetNumberValue() != 500 {
			t.Errorf("got %v", ev)
		}
	}
	for _, stop := range []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopToolUse, llm.StopError, llm.StopAborted} {
		if stopsToProto[stop] == 0 {
			t.Errorf("%s has no number", stop)
		}
	}
}

// The largest answer that the configuration allows is one message, however it is made up.
func TestTheLargestTurnIsOneMessage(t *testing.T) {
	const perBlock = 256 // what a block takes of an answer besides its bytes
	name := strings.Repeat("n", 64)
	calls := make([]llm.Block, rpc.MaxMessage/(perBlock+2*len(name)))
	for i := range calls {
		calls[i] = llm.Block{Call: &llm.ToolCall{ID: name, Name: name, Input: "{}"}}
	}
	for _, blocks := range [][]llm.Block{{{Text: &llm.Text{Text: strings.Repeat("x", rpc.MaxMessage-perBlock)}}}, calls} {
		ev, err := eventToProto(loop.Turn{Step: 1, Blocks: blocks, Stop: llm.StopToolUse, Target: llm.Target{Provider: "anthropic", Model: name}})
		if n := proto.Size(ev); err != nil || n > rpc.MaxMessage {
			t.Errorf("a turn of %d blocks takes %d bytes, %v", len(blocks), n, err)
		}
	}
}
