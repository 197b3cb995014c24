package loop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// archive rebuilds requests from records, by the documented form of the chain only.
type archive struct {
	items []any
	bytes int
}

// add adds a record and checks its chain.
func (a *archive) add(t *testing.T, r contract.Record) {
	t.Helper()
	text, err := json.Marshal(r.Payload)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		BaseHash  *string `json:"base_hash"`
		Hash      string  `json:"hash"`
		ItemCount int     `json:"item_count"`
		NewItems  []any   `json:"new_items"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	a.bytes += len(text)
	if p.BaseHash == nil {
		a.items = nil
	}
	if p.BaseHash != nil && *p.BaseHash != hashOf(t, a.items) {
		t.Errorf("%s continues another chain", r.Type)
	}
	a.items = append(a.items, p.NewItems...)
	if p.ItemCount != len(a.items) || p.Hash != hashOf(t, a.items) {
		t.Errorf("%s: %d items with hash %s; %d recorded", r.Type, p.ItemCount, p.Hash, len(a.items))
	}
}

func hashOf(t *testing.T, items []any) string {
	t.Helper()
	hash := ""
	for _, item := range items {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(item); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(append([]byte(hash+"\n"), bytes.TrimRight(b.Bytes(), "\n")...))
		hash = hex.EncodeToString(sum[:])
	}
	return hash
}

// equal compares the record with a request that a model received.
func (a *archive) equal(t *testing.T, req llm.Request) {
	t.Helper()
	want := requestItems(&Call{Alias: "smart", Request: req})
	values, err := decodeItems(want)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(values, a.items); d != "" {
		t.Error("the record is not what the model received:\n" + d)
	}
}

func records(s *sink, types ...string) []contract.Record {
	var out []contract.Record
	for _, r := range of[contract.Record](s) {
		for _, name := range types {
			if r.Type == name {
				out = append(out, r)
			}
		}
	}
	return out
}

// The records alone are enough to rebuild every request exactly as the model received it (H-PIPE-AUDIT-01,
// H-PIPE-AUDIT-02, H-SCOPE-02; of H-PROMPT-VIS-02 only the record, because prompts cannot be edited without
// checkpoints).
func TestRecordsRebuildRequests(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.read", `{"path":"<a> & \u2028"}`)), wants(call("c2", "file.write", `{}`)),
		says("Done."))
	b.tools.run["file.read"] = func(context.Context, string) (string, error) { return "<html> & ünï\u2028code", nil }
	b.run(t.Context())
	recs := records(b.sink, preGeneration, preGenerationStep)
	if len(recs) != 4 || recs[0].Type != preGeneration {
		t.Fatalf("%d records", len(recs))
	}
	var a archive
	a.add(t, recs[0])
	a.equal(t, b.model.requests[0])
	for i, r := range recs[1:] {
		a.add(t, r)
		a.equal(t, b.model.requests[i])
		if r.Payload["step"] != i+1 || r.Payload["tool_count"] != 3 || r.Payload["model"] != "m1" ||
			r.Payload["provider"] != "fake" || r.Agent != "primary" {
			t.Errorf("%v", r.Payload)
		}
	}
	heads := of[contract.AuditMoved](b.sink)
	if last := heads[len(heads)-1].Head; last.Items != len(a.items) || last.Hash != hashOf(t, a.items) {
		t.Errorf("%+v", last)
	}
}

// A session's record grows with its conversation: the next run records only new items, unless the beginning has
// changed.
func TestRecordContinuesAcrossRuns(t *testing.T) {
	var a archive
	var head contract.AuditHead
	var history []llm.Message
	run := func(prompt string) []contract.Record {
		b := newBench(t, wants(call("", "file.read", "{}")), says("Done."))
		b.start.Prompts["prompts/primary.md"] = prompt
		b.tools.run["file.read"] = func(context.Context, string) (string, error) { return strings.Repeat("x", 10_000), nil }
		b.start.AuditHead = head
		history = append(history, b.start.History...)
		b.start.History = history
		b.run(t.Context())
		recs := records(b.sink, preGeneration, preGenerationStep)
		for _, r := range recs {
			a.add(t, r)
		}
		a.equal(t, b.model.requests[1])
		heads := of[contract.AuditMoved](b.sink)
		head = heads[len(heads)-1].Head
		history = append(b.model.requests[1].Messages, llm.Message{
			Role: llm.RoleAssistant, Blocks: of[contract.TurnDone](b.sink)[1].Blocks,
		})
		return recs
	}
	for i := range 30 {
		recs := run("You are careful.")
		if base := recs[0].Payload["base_hash"]; (base == nil) != (i == 0) {
			t.Fatalf("run %d continues %v", i, base)
		}
	}
	if a.bytes > 30*12_000 {
		t.Errorf("thirty runs of 10 kB each wrote %d bytes", a.bytes)
	}
	if recs := run("You are somebody else."); recs[0].Payload["base_hash"] != nil {
		t.Error("another prompt continues the chain")
	}
}

// A record that would be too large is split into several records that continue each other.
func TestLargeRecordsAreSplit(t *testing.T) {
	b := newBench(t, says("Done."))
	for i := range 5 {
		b.start.History = append(b.start.History,
			llm.Message{
				Role: llm.RoleAssistant, Blocks: []llm.Block{{Text: &llm.Text{Text: fmt.Sprint(i) + strings.Repeat("a", 700_000)}}},
			},
			llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: "More."}}}})
	}
	b.run(t.Context())
	recs := records(b.sink, preGeneration)
	var a archive
	for _, r := range recs {
		a.add(t, r)
	}
	a.equal(t, b.model.requests[0])
	if len(recs) < 4 {
		t.Errorf("%d records", len(recs))
	}
}

// If a record cannot be sent, the run ends before the model is called (H-PIPE-AUDIT-03).
func TestNoCallWithoutRecord(t *testing.T) {
	b := newBench(t)
	b.sink.onEmit = func(e contract.Event) error {
		if _, ok := e.(contract.Record); ok {
			return fault.New(fault.AuditFailed, "No record.")
		}
		return nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Failed || fin.Err.Code != fault.AuditFailed ||
		b.model.calls() != 0 {
		t.Errorf("%+v", fin)
	}
}

// probe is a processor that counts its calls and may change or refuse a request.
type probe struct {
	inputs, steps, chunks int
	change                func(*Call)
	fail                  error
	order                 *[]string
	name                  string
}

func (p *probe) ProcessInput(_ context.Context, _ *Call) error {
	p.inputs++
	*p.order = append(*p.order, p.name)
	return nil
}

func (p *probe) ProcessInputStep(_ context.Context, c *Call) error {
	p.steps++
	if p.change != nil {
		p.change(c)
	}
	return p.fail
}

func (p *probe) ProcessOutputChunk(context.Context, contract.Delta) error {
	p.chunks++
	return nil
}

// Processors run in order: once at the start of a run, at every step, and on every piece of output. Each sees the
// changes of the processor before it, and the last result is sealed (H-PIPE-VIS-01, H-PIPE-ORDER-01).
func TestPipeline(t *testing.T) {
	var order []string
	first := &probe{order: &order, name: "first", change: func(c *Call) { c.Request.System = []string{"changed"} }}
	second := &probe{order: &order, name: "second"}
	p := pipeline{first, second}
	call := &Call{Step: 1}
	if err := p.input(t.Context(), call); err != nil || call.Request.System[0] != "changed" {
		t.Error(err, call)
	}
	for step := 2; step <= 3; step++ {
		call := &Call{Step: step}
		if err := p.input(t.Context(), call); err != nil {
			t.Error(err)
		}
	}
	if err := p.output(t.Context(), contract.Delta{}); err != nil {
		t.Error(err)
	}
	if first.inputs != 1 || first.steps != 3 || second.steps != 3 || second.chunks != 1 ||
		strings.Join(order, " ") != "first second" {
		t.Errorf("%+v %+v %v", first, second, order)
	}
	first.fail = fault.New(fault.BadRequest, "No.")
	if err := p.input(t.Context(), &Call{Step: 4}); err == nil || second.steps != 3 {
		t.Error("a processor that refuses did not stop the pipeline")
	}
}

// A request that changed after the pipeline is not sent (H-PIPE-01).
func TestChangedRequestIsNotSent(t *testing.T) {
	r := &invocation{}
	req := llm.Request{System: []string{"a"}}
	r.sealed.take(&req)
	a := attempts{run: r, call: &Call{Request: req}}
	a.call.Request.System[0] = "b"
	if _, err := a.once(t.Context(), candidate{}); fault.CodeOf(err) != fault.Internal {
		t.Errorf("got %v, want %s", err, fault.Internal)
	}
}

// A snapshot matches its own request alone. A request that continues it differs from it in its end only.
func TestSnapshot(t *testing.T) {
	text := func(s string) llm.Message {
		return llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: s}}}}
	}
	requests := []llm.Request{
		{},
		{System: []string{""}},
		{System: []string{"ab"}},
		{System: []string{"a", "b"}},
		{MaxOutputTokens: 1},
		{CacheKey: "x"},
		{Note: "a"},
		{Tools: []llm.Tool{{Name: "a"}}},
		{Tools: []llm.Tool{{Description: "a"}}},
		{Tools: []llm.Tool{{Schema: json.RawMessage("a")}}},
		{Messages: []llm.Message{text("a")}},
		{Messages: []llm.Message{text("a"), text("")}},
		{Messages: []llm.Message{text("b")}},
		{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Thinking: &llm.Thinking{Text: "a"}}}}}},
		{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Thinking: &llm.Thinking{Opaque: []byte("a")}}}}}},
		{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Call: &llm.ToolCall{ID: "a"}}}}}},
		{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Call: &llm.ToolCall{Input: "a"}}}}}},
		{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Result: &llm.ToolResult{Content: "a"}}}}}},
		{
			Messages: []llm.Message{
				{Role: llm.RoleUser, Blocks: []llm.Block{{Result: &llm.ToolResult{Content: "a", IsError: true}}}},
			},
		},
		{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{}}}}},
	}
	var zero snapshot
	for i := range requests {
		if zero.matches(&requests[i]) {
			t.Errorf("no request matches request %d", i)
		}
		var s snapshot
		if s.take(&requests[i]) {
			t.Errorf("request %d continues no request", i)
		}
		for j := range requests {
			if got := s.matches(&requests[j]); got != (i == j) {
				t.Errorf("the snapshot of request %d matches request %d: got %t, want %t", i, j, got, i == j)
			}
		}
	}
}

// Snapshots of different conversations with the same tools have one copy of the schemas, and see a change in place.
func TestSnapshotsShareSchemas(t *testing.T) {
	requests := [2]llm.Request{}
	var snapshots [2]snapshot
	for i := range requests {
		requests[i].Tools = []llm.Tool{{Name: "file.read", Schema: []byte(`{"type":"object"}`)}}
		snapshots[i].take(&requests[i])
	}
	first, second := snapshots[0].tools[0].schema.Value(), snapshots[1].tools[0].schema.Value()
	if unsafe.StringData(first) != unsafe.StringData(second) {
		t.Error("two snapshots have a copy each of the same schema")
	}
	requests[0].Tools[0].Schema[2] = 'T'
	if snapshots[0].matches(&requests[0]) || !snapshots[1].matches(&requests[1]) {
		t.Error("a schema that was changed in place counts as the same, or changed another request")
	}
}

// A snapshot that follows a conversation sees each changed message, and knows the conversation's size. Asked whether a
// request is its own, it sees a change in place too.
func TestSnapshotOfAGrowingConversation(t *testing.T) {
	opaque := []byte("opaque")
	call := &llm.ToolCall{ID: "1", Name: "file.read", Input: "{}"}
	req := llm.Request{Messages: []llm.Message{
		{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: "go"}}}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{{Thinking: &llm.Thinking{Opaque: opaque}}, {Call: call}}},
	}}
	var s snapshot
	s.take(&req)
	results := 0
	grow := func() { // no two results are alike
		results++
		req.Messages = append(req.Messages, llm.Message{
			Role: llm.RoleTool, Blocks: []llm.Block{{Result: &llm.ToolResult{Content: fmt.Sprint(results)}}},
		})
	}
	grow()
	req.Note = "a note"
	if !s.take(&req) || !s.matches(&req) {
		t.Error("a request with one message more, and a note, does not continue the last")
	}
	sized := func(when string) {
		t.Helper()
		if got, want := fixedSize(&req)+s.conversationSize(), requestSize(&req); got != want {
			t.Errorf("%s: the size is %d, want %d", when, got, want)
		}
	}
	sized("a message more")
	replace := func(b llm.Block) { req.Messages[1].Blocks = []llm.Block{req.Messages[1].Blocks[0], b} }
	for name, change := range map[string]func(){
		"a block":                func() { replace(llm.Block{Call: &llm.ToolCall{ID: "2"}}) },
		"a block less":           func() { req.Messages[1].Blocks = req.Messages[1].Blocks[:1] },
		"fewer messages":         func() { req.Messages = slices.Clip(req.Messages[:2]) },
		"limit of the answer":    func() { req.MaxOutputTokens = 7 },
		"order of equal lengths": func() { req.Messages[0], req.Messages[1] = req.Messages[1], req.Messages[0] },
	} {
		req.Messages = slices.Clone(req.Messages) // elements of a list are not replaced, see [llm.Common]
		change()
		if s.matches(&req) {
			t.Errorf("%s: the changed request matches", name)
		}
		grow()
		if s.take(&req) {
			t.Errorf("%s: the changed request continues the last", name)
		}
		if !s.matches(&req) {
			t.Errorf("%s: a new snapshot does not match its request", name)
		}
		sized(name)
	}
	for name, change := range map[string]func(){
		"bytes": func() { opaque[0] = 'O' },
		"text":  func() { call.Input = `{"path":"a"}` },
	} {
		req.Messages = []llm.Message{{Role: llm.RoleAssistant, Blocks: []llm.Block{
			{Thinking: &llm.Thinking{Opaque: opaque}}, {Call: call},
		}}}
		s.take(&req)
		if change(); s.matches(&req) {
			t.Errorf("%s of a block changed in place: the request matches", name)
		}
	}
}
