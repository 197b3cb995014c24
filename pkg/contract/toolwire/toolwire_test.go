package toolwire_test

import (
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/pkg/dsl"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Every field of a caller is equal after encoding and decoding.
func TestCallersRoundTrip(t *testing.T) {
	t.Parallel()
	same := func(want contract.Caller, policy dsl.Cage) bool {
		want.Cage = dsl.CageFromProto(policy.Proto())
		want.LanguageServers = dsl.LanguageServersFromProto(dsl.LanguageServersProto(want.LanguageServers))
		want.LanguageServers = append(want.LanguageServers, dsl.LanguageServer{
			Lang: "go", Command: []string{"gopls"}, Extensions: []string{".go"},
		})
		want.Debugging = dsl.DebuggingFromProto(want.Debugging.Proto())
		want.Debugging.Configurations = append(want.Debugging.Configurations, dsl.DebugConfiguration{Name: "a", JSON: "{}"})
		want.Debugging.Adapters = append(want.Debugging.Adapters, dsl.DebugAdapter{
			Runtime: "lua", Command: []string{"lua-debug"}, Announces: "at ", Type: "lua",
		})
		return cmp.Equal(want, toolwire.FromCaller(toolwire.Caller(&want)))
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	if got := toolwire.FromCaller(&toolrunnerv1.ToolContext{}); got.Cage != nil || got.Job != nil {
		t.Errorf("got %+v of an empty context, want no cage and no job", got)
	}
}

// A question is decoded with its subject, its fingerprint and the records of the call.
func TestQuestionsRoundTrip(t *testing.T) {
	t.Parallel()
	want := contract.Question{Fingerprint: "f", Subject: contract.Subject{
		Tool: "t", Agent: "primary", Reasons: []string{"r"}, Command: "c", Cwd: "./d", Paths: []string{"./p"}, Preview: "+",
	}}
	records := []contract.Record{{Type: "tool.called", At: 1, Agent: "primary", Payload: map[string]any{"a": "b"}}}
	got, about := toolwire.FromQuestion(toolwire.Question(want, records).GetApproval())
	if d := cmp.Diff(want, got) + cmp.Diff(records, about); d != "" {
		t.Error(d)
	}
}

// The events of a cage are equal after encoding and decoding. An end without a reason is a loss.
func TestCageEventsRoundTrip(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]contract.CageEvent{
		"opened": {Opened: &contract.Cage{
			ID: "i", Tier: "userns", BestEffort: []string{"b"}, Summary: "s", Notes: []string{"n"},
		}},
		"network": {Network: &contract.Attempt{At: 5, Target: "t", Allowed: true, Rule: "r", Count: 2}},
		"ended":   {Ended: "disk", Found: []contract.Finding{{Kind: "name", Path: "/p", Text: "t"}}},
		"empty":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(want, toolwire.FromCageEvent(toolwire.CageEvent(want))); d != "" {
				t.Error(d)
			}
		})
	}
	lost := &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Ended{}}
	if got := toolwire.FromCageEvent(lost); got.Ended != "lost" {
		t.Errorf("got end %q, want lost", got.Ended)
	}
}
