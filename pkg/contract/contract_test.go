package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
)

var owner = contract.Owner{SessionID: "s", RunID: "r", ProjectID: "p", Agent: "primary"}

// Processes and cages are equal after encoding and decoding.
func TestRunningRoundTrips(t *testing.T) {
	t.Parallel()
	process := contract.RunningProcess{
		ID: "i", Owner: owner, CageID: "c", PID: 7, Command: "sleep 1", StartedAt: 5,
		Use: contract.Use{Memory: 1, CPU: 2}, Background: true,
	}
	if d := cmp.Diff(process, contract.ProcessFromProto(process.Proto())); d != "" {
		t.Error(d)
	}
	if p := (contract.RunningProcess{}).Proto(); p.CageId != nil {
		t.Errorf("got cage %q, want none", p.GetCageId())
	}
	cage := contract.RunningCage{
		Cage: contract.Cage{ID: "c", Tier: "userns", BestEffort: []string{"b"}}, Owner: owner, StartedAt: 5,
		Use: contract.Use{Memory: 1, CPU: 2}, Processes: 3,
	}
	if d := cmp.Diff(cage, contract.CageFromProto(cage.Proto())); d != "" {
		t.Error(d)
	}
}

// Text that is not UTF-8, such as a file's name, is made valid before it is sent.
func TestEveryTextCrossesTheWire(t *testing.T) {
	t.Parallel()
	bad := "a\xff"
	for _, m := range []proto.Message{
		contract.Subject{
			Tool: bad, Agent: bad, Reasons: []string{bad}, Command: bad, Cwd: bad, Paths: []string{bad}, Preview: bad,
		}.Proto(),
		contract.Attempt{Target: bad, Rule: bad}.Proto(),
		contract.FindingsProto([]contract.Finding{{Kind: bad, Path: bad, Text: bad}})[0],
		contract.Record{Payload: map[string]any{bad: bad}}.Proto(),
	} {
		if _, err := proto.Marshal(m); err != nil {
			t.Errorf("%T: %v", m, err)
		}
	}
}
