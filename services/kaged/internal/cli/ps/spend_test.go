package ps

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The total comes last, estimates are marked, and control characters in the name of a project are escaped.
func TestWriteSpent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := writeSpent(&out, spent{
		Total: spentSum{CostUSD: 1.25, Tokens: 1200, Calls: 4, Estimated: 1},
		Groups: []spentOne{
			{"mean\x1b[2J", "anthropic:claude", spentSum{CostUSD: 1.2, Tokens: 1000, Calls: 3, Estimated: 1}},
			{"music", "openai:gpt", spentSum{CostUSD: 0.05, Tokens: 200, Calls: 1}},
		},
		HasMore: true,
	}, time.Hour)
	want := strings.Join([]string{
		"PROJECT      MODEL             CALLS  TOKENS  USD",
		"mean\\x1b[2J  anthropic:claude  3      1000    1.2000  (1 estimated)",
		"music        openai:gpt        1      200     0.0500",
		"...                                           ",
		"total                          4      1200    1.2500  (1 estimated)",
		"",
	}, "\n")
	if d := cmp.Diff(want, out.String()); d != "" || err != nil {
		t.Error(d, err)
	}
	out.Reset()
	err = writeSpent(&out, spent{}, time.Hour)
	if err != nil || out.String() != "No model calls in the last 1h0m0s.\n" {
		t.Errorf("got %q, %v, want the empty state", out.String(), err)
	}
}
