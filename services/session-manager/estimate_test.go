package sessionmanager

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// A context estimate returns the used tokens, and the used fraction of the window including the reserve for the
// answer (A-EST-01, A-EST-02, A-CONTRA-17).
func TestContextEstimate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	got, err := n.Sessions.GetContextEstimate(as(t, "ada"), &apiv1.GetContextEstimateRequest{SessionId: s})
	if err != nil || got.GetInputTokens() != 300 || got.GetContextWindow() != 1000 || got.GetFraction() != 0.5 ||
		got.GetAlgorithm() != "fallback" || got.GetAgentPath() != "primary" || got.ErrorFraction != nil {
		t.Errorf("%v, %v", got, err)
	}
	w.harness.mu.Lock()
	w.harness.compacts = func(compactCall) (*harnessv1.CompactResponse, error) {
		return &harnessv1.CompactResponse{Estimate: &harnessv1.ContextEstimate{
			InputTokens: 300, ReservedTokens: 200, Calibrated: true, Error: proto.Float64(0.25),
		}}, nil
	}
	w.harness.mu.Unlock()
	got, err = n.Sessions.GetContextEstimate(as(t, "ada"), &apiv1.GetContextEstimateRequest{SessionId: s})
	if err != nil || got.ContextWindow != nil || got.GetFraction() != 0 || got.GetAlgorithm() != "calibrated" ||
		got.GetErrorFraction() != 0.25 {
		t.Errorf("an unknown window: %v, %v", got, err)
	}
}

// The estimate of a session that this process holds is made once for each state of its conversation: the harness is
// asked again after a message, after a mark on one and after a change of the budget.
func TestAContextIsEstimatedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.UnloadAfter = config.Duration(time.Hour) })
	s := n.session("ada")
	var asked atomic.Int32
	w.harness.mu.Lock()
	w.harness.compacts = func(c compactCall) (*harnessv1.CompactResponse, error) {
		asked.Add(1)
		return &harnessv1.CompactResponse{
			Estimate: &harnessv1.ContextEstimate{InputTokens: int64(len(c.history))},
		}, nil
	}
	w.harness.mu.Unlock()
	want := func(messages int64, times int32) {
		t.Helper()
		for range 2 {
			got, err := n.Sessions.GetContextEstimate(as(t, "ada"), &apiv1.GetContextEstimateRequest{SessionId: s})
			if err != nil || got.GetInputTokens() != messages {
				t.Errorf("%v, %v, not %d", got, err, messages)
			}
		}
		if n := asked.Load(); n != times {
			t.Errorf("the harness was asked %d times, not %d", n, times)
		}
	}
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	want(2, 1)
	n.run("ada", s, n.post("ada", s, "More.").GetRunId())
	want(4, 2)
	if _, err := n.Sessions.UpdateMessage(as(t, "ada"), &apiv1.UpdateMessageRequest{
		SessionId: s, MessageId: n.messages("ada", s)[1].GetId(), AlwaysKeep: proto.Bool(true),
	}); err != nil {
		t.Fatal(err)
	}
	want(4, 3)
	if _, err := n.budgeted("ada", s, map[string]any{"tokens": 5000}); err != nil {
		t.Fatal(err)
	}
	want(4, 4)
	if _, err := n.Sessions.GetContextEstimate(as(t, "ada"), &apiv1.GetContextEstimateRequest{
		SessionId: s, AgentPath: "primary.nobody",
	}); fault.From(err).Code != fault.NotFound {
		t.Errorf("an unknown agent: %v", err)
	}
}
