package sessionmanager

import (
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

func (n *node) take(user, limit string, wanted int32) (*sessionmanagerv1.TakeTokensResponse, error) {
	return sessionmanagerv1.NewOperatorServiceClient(n.conn).TakeTokens(
		as(n.w.t, user), &sessionmanagerv1.TakeTokensRequest{Limit: limit, Wanted: wanted}, grpc.WaitForReady(true),
	)
}

// Two replicas together give an operator no more tokens than the limit, even if many request them at once; a
// refusal has the time until the next token. Other limits and other operators are independent (A-RATE-01 to
// A-RATE-06, A-RATE-08).
func TestRatesAreShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure("[limits]\nmessages_per_minute = 12\n")
	nodes := []*node{w.start("a"), w.start("b")}
	for limit, most := range map[string]int64{"messages": 12, "dsl_writes": 10, "requests": 600} {
		var taken, refused atomic.Int64
		var work sync.WaitGroup
		for i := range 40 {
			work.Go(func() {
				wanted := int32(1)
				if limit == "requests" {
					wanted = 20
				}
				resp, err := nodes[i%2].take("ada", limit, wanted)
				if err != nil {
					t.Error(err)
				}
				taken.Add(int64(resp.GetTaken()))
				if resp.GetTaken() == 0 && resp.GetRetryAfterMs() > 0 {
					refused.Add(1)
				}
			})
		}
		work.Wait()
		// Tokens that refill during the test count as well.
		if n := taken.Load(); n < most || n > most+most/4 || refused.Load() == 0 {
			t.Errorf("%s: %d tokens of %d were taken, %d requests refused", limit, n, most, refused.Load())
		}
	}
	if resp, err := nodes[1].take("eve", "messages", 1); err != nil || resp.GetTaken() != 1 {
		t.Errorf("another operator is answered %v, %v", resp, err)
	}
	if resp, err := nodes[1].take("ada", "audit", 1); err != nil || resp.GetTaken() != 1 {
		t.Errorf("another limit is answered %v, %v", resp, err)
	}
	_, err := nodes[0].take("ada", "nonsense", 1)
	refused(t, err, fault.ValidationFailed)
}
