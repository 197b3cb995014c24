// Package transcript turns a run's steps into the stored message, and stored messages into a model's conversation.
//
// A run is a list of [Step]s: a turn of the model and the results of its tools. [Compose] joins the steps of a run
// into one flat list of blocks, which is the run's message; [History] splits such lists into turns and results
// again. Both add results for calls that a crash or a cancellation left open, because providers refuse a
// conversation in which a tool call has no result.
package transcript

import (
	"slices"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// Turn is a stored turn.
type Turn struct {
	contract.Turn
	// At is the time at which it was stored, in Unix milliseconds.
	At int64
}

// Step is a turn and the results of its tools.
type Step struct {
	Turn
	Results []llm.ToolResult
	// Done says that all results are present. A turn without calls is done at once.
	Done bool
}

// Metadata is the origin of a message: model, use and outcome.
type Metadata struct {
	Provider     string         `json:"provider"`
	Model        string         `json:"model"`
	StopReason   llm.StopReason `json:"stop_reason"`
	Usage        *llm.Usage     `json:"usage,omitempty"`
	Stats        *llm.Stats     `json:"stats,omitempty"`
	ErrorMessage string         `json:"error_message,omitempty"`
	ErrorCode    string         `json:"error_code,omitempty"`
	ErrorStatus  int            `json:"error_status,omitempty"`
	// Kind is [KindSummary], [KindSteer] or "" for an answer.
	Kind string `json:"kind,omitempty"`
	// AfterStep is the step after which a steering message was delivered.
	AfterStep int `json:"after_step,omitempty"`
}

// KindSteer is the kind of an operator's message that its run received at a step boundary.
const KindSteer = "steer"

// KindSummary is the kind of a summarizer's message. Its compaction, not its ordinal, decides its place in a
// conversation.
const KindSummary = "compaction_summary"

// In returns the number of input tokens in u, including cached ones.
func In(u llm.Usage) int64 { return u.TotalInput() }

// Sum returns the total use and stats of steps: usage and cost are summed, the time to first token is the first
// measured step's, and the duration is the model's streaming time. Stats are nil if no step was measured; the cost
// is nil if the cost of any measured step is unknown.
func Sum(steps []Step) (llm.Usage, *llm.Stats) {
	var usage llm.Usage
	var stats *llm.Stats
	for _, s := range steps {
		usage = usage.Add(s.Usage)
		switch {
		case s.Stats == nil:
		case stats == nil:
			first := *s.Stats
			stats = &first
		default:
			stats.Duration += s.Stats.Duration
			stats.Cost = addCost(stats.Cost, s.Stats.Cost)
		}
	}
	if stats != nil {
		stats.TPS = 0
		if stats.Duration > 0 {
			stats.TPS = float64(usage.Output) / (stats.Duration / 1000)
		}
	}
	return usage, stats
}

func addCost(a, b *llm.Cost) *llm.Cost {
	if a == nil || b == nil {
		return nil
	}
	sum := a.Add(*b)
	return &sum
}

// Compose returns the blocks of a run's message: every turn with the results of its tools, then the received part
// of an unfinished turn, then closing as a last text if it is not empty. A call without a result gets a failed
// result with the code why: interrupted or cancelled.
func Compose(steps []Step, partial []llm.Block, closing string, why fault.Code) []llm.Block {
	var blocks []llm.Block
	for _, s := range steps {
		blocks = append(blocks, s.Blocks...)
		for i := range s.Results {
			blocks = append(blocks, llm.Block{Result: &s.Results[i]})
		}
	}
	blocks = Repair(append(blocks, partial...), why)
	if closing != "" {
		blocks = append(blocks, llm.Block{Text: &llm.Text{Text: closing}})
	}
	return blocks
}

// Open returns the calls without a result in a run's last step, in order. Earlier steps have all their results.
func Open(steps []Step) []llm.ToolCall {
	if len(steps) == 0 {
		return nil
	}
	last := steps[len(steps)-1]
	var open []llm.ToolCall
	for _, b := range last.Blocks {
		if b.Call != nil && !slices.ContainsFunc(last.Results, func(r llm.ToolResult) bool { return r.CallID == b.Call.ID }) {
			open = append(open, *b.Call)
		}
	}
	return open
}

// Content returns the text of a message: its text blocks in order. An empty line stands where other blocks, such as the
// calls of a step, are between two of them.
func Content(blocks []llm.Block) string {
	var texts []string
	between := false
	for _, block := range blocks {
		if block.Text == nil {
			between = true
			continue
		}
		if between && len(texts) > 0 {
			texts = append(texts, "\n\n")
		}
		texts = append(texts, block.Text.Text)
		between = false
	}
	return strings.Join(texts, "") // Join does not copy a single text.
}

// Repair returns blocks with a result for every call: a missing result is added after the turn as a failure with
// the code why, and a result without a call is omitted.
func Repair(blocks []llm.Block, why fault.Code) []llm.Block {
	out := make([]llm.Block, 0, len(blocks))
	var open []llm.ToolCall // calls of the present turn without a result
	answering := false      // results of the turn have begun
	flush := func() {
		for _, call := range open {
			out = append(out, llm.Block{Result: missing(call, why)})
		}
		open, answering = nil, false
	}
	for _, b := range blocks {
		if b.Result != nil {
			var known bool
			if open, known = answered(open, b.Result.CallID); known {
				out = append(out, b)
				answering = true
			}
			continue
		}
		if answering {
			flush()
		}
		if b.Call != nil {
			open = append(open, *b.Call)
		}
		out = append(out, b)
	}
	flush()
	return out
}

func answered(open []llm.ToolCall, id string) ([]llm.ToolCall, bool) {
	for i, call := range open {
		if call.ID == id {
			return append(open[:i:i], open[i+1:]...), true
		}
	}
	return open, false
}

func missing(call llm.ToolCall, why fault.Code) *llm.ToolResult {
	f := fault.New(why, "The call was cut off before its result was stored. Whether it took effect is not known.")
	return &llm.ToolResult{CallID: call.ID, Name: call.Name, Content: f.ToolError(), IsError: true}
}
