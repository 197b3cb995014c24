package run

import (
	"encoding/json"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// compaction prints the effect of a compaction in the run, or why a strategy failed.
func (p *printer) compaction(f client.Frame, run string) {
	var m struct {
		RunID        string `json:"run_id"`
		InvocationID string `json:"invocation_id"`
		AgentPath    string `json:"agent_path"`
		Superseded   int    `json:"superseded_count"`
		After        int64  `json:"after_estimate"`
		Attempted    string `json:"attempted_strategy"`
		Fallback     string `json:"fallback_strategy"`
		Reason       string
	}
	if json.Unmarshal(f.Payload, &m) != nil || m.RunID != run {
		return
	}
	step := func(format string, args ...any) { p.stepOf(m.InvocationID, m.AgentPath, format, args...) }
	switch f.Type {
	case frametype.CompactionCompleted.Name:
		step("the conversation was shortened: %s gave way, about %d tokens stay",
			kit.Count(m.Superseded, "message", "messages"), m.After)
	case frametype.CompactionFailed.Name:
		step("! the conversation was not shortened by %s, so %s is used: %s", termtext.Line(m.Attempted),
			termtext.Line(m.Fallback), kit.Brief(m.Reason, 400))
	default:
		step("! the conversation could not be shortened: %s", kit.Brief(m.Reason, 400))
	}
}
