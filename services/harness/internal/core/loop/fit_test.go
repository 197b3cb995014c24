package loop

import (
	"context"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// choosy is a model that accepts only the thinking of its own driver.
type choosy struct {
	*model
	name string
}

func (c choosy) Keeps(_ string, t *llm.Thinking) bool { return t.Driver == c.name }

// choice returns choosy models by provider.
type choice map[string]choosy

func (c choice) Open(t llm.Target) (llm.Driver, error) { return c[t.Provider], nil }

func thought(driver string) llm.Block {
	return llm.Block{Thinking: &llm.Thinking{Text: "hm", Opaque: []byte("signed"), Driver: driver}}
}

func text(s string) llm.Block { return llm.Block{Text: &llm.Text{Text: s}} }

// A target's request and its record lack the thinking of other drivers. A message without other blocks is removed,
// and its neighbours are joined. A second target gets its own request.
func TestRequestsFitTheirTarget(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	limited := fault.New(fault.ProviderRateLimited, "Slow down.")
	first := choosy{&model{t: t, answers: []play{fails(limited)}}, "a"}
	second := choosy{&model{t: t, answers: []play{says("Done.")}}, "b"}
	b.deps.Models = choice{"one": first, "two": second}
	b.start.Routes["smart"] = routeTo("one:m", "two:m")
	b.start.History = []llm.Message{
		{Role: llm.RoleUser, Blocks: []llm.Block{text("Begin.")}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{thought("a"), thought("b"), text("Yes.")}},
		{Role: llm.RoleUser, Blocks: []llm.Block{text("Go on.")}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{thought("b")}},
		{Role: llm.RoleUser, Blocks: []llm.Block{text("Well?")}},
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	for _, m := range []struct {
		choosy
		messages int
	}{{first, 3}, {second, 5}} {
		messages := m.requests[0].Messages
		if len(messages) != m.messages || len(messages[1].Blocks) != 2 || messages[1].Blocks[0].Thinking.Driver != m.name {
			t.Errorf("%s was sent %+v", m.name, messages)
		}
	}
	steps := records(b.sink, preGenerationStep)
	if len(steps) != 2 || steps[0].Payload["provider"] != "one" || steps[1].Payload["provider"] != "two" {
		t.Fatalf("%d requests are recorded", len(steps))
	}
	var a archive
	for _, r := range records(b.sink, preGeneration, preGenerationStep) {
		a.add(t, r)
	}
	a.equal(t, second.requests[0])
}

// noted is a Watch that stores the steps of the requests it sees.
type noted struct {
	unwatched
	steps []int
}

func (n *noted) Request(_ context.Context, r RequestSeen) { n.steps = append(n.steps, r.Step) }

// A request is recorded, checked by the policy, and traced, in this order: a refused request has a record and no
// trace (H-PIPE-ORDER-01, H-TEST-PIPE-01).
func TestARefusedRequestHasARecordAndNoTrace(t *testing.T) {
	t.Parallel()
	b := reads(t, strings.Repeat("x", 3000))
	w := &noted{}
	b.deps.Watch = w
	b.start.Agent.Policy = &dsl.Policy{TokenHardLimit: 500}
	if fin := b.run(t.Context()); fin.Err == nil || fin.Err.Code != fault.PolicyViolation {
		t.Fatalf("%+v", fin)
	}
	if n := len(records(b.sink, preGenerationStep)); n != 2 || !slices.Equal(w.steps, []int{1}) {
		t.Errorf("%d requests are recorded, and %v shown", n, w.steps)
	}
}

// A request is sent only after its record is on disk. The record of its bytes comes with the wanted call, and holds
// the hash of the request's items after the processors (H-PIPE-AUDIT-03).
func TestARequestLeavesAfterItsRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, wants(call("c1", "file.read", "{}")), says("Done."))
	gone := fault.New(fault.Cancelled, "The caller went away.")
	b.sink.grant = func(_ context.Context, w contract.CallWanted) (contract.CallGranted, error) {
		if n := b.model.calls(); n != w.Call-1 || len(w.Audit) != 1 || w.Audit[0].Type != requestLeft {
			t.Errorf("call %d was wanted after %d, with %+v", w.Call, n, w.Audit)
		}
		heads := of[contract.AuditMoved](b.sink)
		p, last := w.Audit[0].Payload, heads[len(heads)-1].Head
		if p["hash"] != last.Hash || p["call"] != w.Call || p["body_sha256"] != nil {
			t.Errorf("the record is %+v", p)
		}
		if w.Call == 2 {
			return contract.CallGranted{}, gone
		}
		return contract.CallGranted{Call: w.Call}, nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Cancelled || b.model.calls() != 1 {
		t.Errorf("%+v after %d calls", fin, b.model.calls())
	}
}
