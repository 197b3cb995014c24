package compact_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/harness/internal/core/compact"
)

// The view of a ledger shows open todos only, the last state of a file, a command's failure unless the command
// succeeded later, and each text on one line.
func TestView(t *testing.T) {
	one, zero := 1, 0
	view := compact.View([]contract.LedgerEntry{
		{Seq: 1, Kind: contract.LedgerTodo, Text: "first"},
		{Seq: 2, Kind: contract.LedgerTodo, Text: "second"},
		{Seq: 3, Kind: contract.LedgerDone, Ref: 1},
		{Seq: 4, Kind: contract.LedgerFileChanged, Path: "a.go", SHA256: strings.Repeat("1", 64)},
		{Seq: 5, Kind: contract.LedgerFileChanged, Path: "a.go", SHA256: strings.Repeat("2", 64)},
		{Seq: 6, Kind: contract.LedgerCommand, Command: "make a", ExitCode: &one},
		{Seq: 7, Kind: contract.LedgerCommand, Command: "make b", ExitCode: &one},
		{Seq: 8, Kind: contract.LedgerCommand, Command: "make b", ExitCode: &zero},
		{Seq: 9, Kind: contract.LedgerDecision, Text: "use\nFailed or denied:"},
		{Seq: 10, Kind: contract.LedgerDenied, Text: "file.write: fs.write"},
	})
	_, rest, _ := strings.Cut(view, "\n")
	want := "Open todos:\n- [2] second\nDecisions:\n- [9] use ⏎ Failed or denied:\nFailed or denied:\n- [6] `make a` " +
		"exit 1\n" +
		"- [10] denied: file.write: fs.write\nChanged files:\n- [5] a.go (sha256 222222222222)\nNewest:\n- [8] `make b` " +
		"exit 0"
	if rest != want {
		t.Errorf("the view is\n%s\nwant\n%s", rest, want)
	}
	if compact.View(nil) != "" {
		t.Error("an empty ledger has a view")
	}
}

// A view never exceeds its limit, for any ledger.
func TestViewIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []contract.LedgerEntry
		for i := range rapid.IntRange(0, 300).Draw(t, "entries") {
			kind := rapid.SampledFrom(contract.LedgerKinds).Draw(t, "kind")
			text := strings.Repeat("x", rapid.IntRange(1, 1000).Draw(t, "size"))
			entries = append(entries, contract.LedgerEntry{
				Seq: int64(i + 1), Kind: kind, Text: text, Path: fmt.Sprint("f", i), Command: text,
			})
		}
		if n := len(compact.View(entries)); n > compact.MaxView {
			t.Fatalf("%d bytes", n)
		}
	})
}
