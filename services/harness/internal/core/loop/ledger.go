package loop

import (
	"encoding/json"
	"slices"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/harness/internal/core/compact"
)

// noteTool is the tool that returns the number of its ledger entry.
const noteTool = "kaged.note"

// entered returns the ledger entries of a call, numbered, and adds them to the run's ledger.
func (v *invocation) entered(step int, tool string, out *ToolOutcome) []contract.LedgerEntry {
	entries := contract.LedgerOf(tool, out.Err, out.Audit)
	if len(entries) == 0 {
		return nil
	}
	v.Tree.mu.Lock()
	defer v.Tree.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		v.lastEntry++
		e.Seq, e.Step, e.InvocationID, e.Agent = v.lastEntry, step, v.id, v.agent.Path
		if e.At == 0 {
			e.At = time.Now().UnixMilli()
		}
	}
	v.entries = append(v.entries, entries...)
	if tool == noteTool && out.Err == nil {
		if content, err := json.Marshal(map[string]int64{"seq": entries[len(entries)-1].Seq}); err == nil {
			out.Content = string(content)
		}
	}
	return entries
}

// ledger returns the agent's view of the session's ledger: all of it for the root agent, only its own entries for a
// child.
func (v *invocation) ledger() string {
	v.Tree.mu.Lock()
	entries := slices.Clone(v.entries)
	v.Tree.mu.Unlock()
	if v.parent != nil {
		entries = slices.DeleteFunc(entries, func(e contract.LedgerEntry) bool { return e.InvocationID != v.id })
	}
	return compact.View(entries)
}
