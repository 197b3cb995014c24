package loop

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// loopDetected is the record of repeated calls with equal results.
const loopDetected = "loop.detected"

// longestCycle is the length in calls of the longest detected cycle.
const longestCycle = 3

// repeats detects calls of an invocation that repeat with equal input and equal result: one call, or a cycle of
// calls. Calls are noted in their order. The zero value is ready.
type repeats struct {
	recent []made            // the last calls, at most longestCycle
	runs   [longestCycle]int // at i: number of calls in a row that equal the call i+1 before them
	told   map[string]int    // step of the model's warning, by cycle
	over   *fault.Error      // the agent's end; nil until then
}

// made is a call with its result.
type made struct {
	mark [sha256.Size]byte
	tool string
}

// circle is a detected cycle.
type circle struct {
	calls []made
	times int
}

// note adds a call. It returns the cycle that the call completes often enough, if any.
func (r *repeats) note(m made, limits Limits) (circle, bool) {
	for i := range r.runs {
		if at := len(r.recent) - 1 - i; at >= 0 && r.recent[at].mark == m.mark {
			r.runs[i]++
		} else {
			r.runs[i] = 0
		}
	}
	r.recent = append(r.recent, m)
	if len(r.recent) > longestCycle {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	for i, run := range r.runs {
		length, most := i+1, limits.CycleRepeats
		if length == 1 {
			most = limits.CallRepeats
		}
		if times := run/length + 1; times >= most {
			return circle{calls: slices.Clone(r.recent[len(r.recent)-length:]), times: times}, true
		}
	}
	return circle{}, false
}

// forget starts the counts again, after a call that waited for outside events.
func (r *repeats) forget() { r.recent, r.runs = nil, [longestCycle]int{} }

// key identifies a cycle by the set of its calls, so that the first call does not matter.
func (c circle) key() string {
	prints := make([]string, len(c.calls))
	for i, m := range c.calls {
		prints[i] = string(m.mark[:])
	}
	slices.Sort(prints)
	return strings.Join(prints, "")
}

// tools returns the names of the called tools.
func (c circle) tools() []any {
	list := make([]any, len(c.calls))
	for i, m := range c.calls {
		list[i] = m.tool
	}
	return list
}

// String describes the calls and their number.
func (c circle) String() string {
	if len(c.calls) == 1 {
		return fmt.Sprintf("%s was called %d times with the same input and the same result", c.calls[0].tool, c.times)
	}
	names := make([]string, len(c.calls))
	for i, m := range c.calls {
		names[i] = m.tool
	}
	return fmt.Sprintf("the same %d calls (%s) were made %d times with the same results",
		len(c.calls), strings.Join(names, ", "), c.times)
}

// looped checks a finished call. The first time that a cycle is detected, the call's result warns the model. A
// detection in a later turn ends the agent. Calls that wait for outside events are not counted.
func (v *invocation) looped(step int, c *toolCall) {
	o, known := v.offers[c.call.Name]
	if known && o.waits([]byte(c.call.Input)) {
		v.repeats.forget()
		return
	}
	name := v.canonicalName(c.call.Name)
	found, ok := v.repeats.note(made{mark: fingerprint(name, c), tool: valid(name)}, v.deps.Limits)
	if !ok || v.repeats.over != nil {
		return
	}
	key := found.key()
	told, again := v.repeats.told[key]
	if again && told == step {
		return // the model has not read the warning yet
	}
	if again {
		v.repeats.over = fault.New(fault.LoopDetected,
			"The agent %s goes round in a circle: %s, also after it was told.", v.agent.Path, found).
			With("agent", v.agent.Path).With("tool", found.calls[0].tool).With("tools", found.tools()).
			With("repeats", found.times)
	} else {
		if v.repeats.told == nil {
			v.repeats.told = map[string]int{}
		}
		v.repeats.told[key] = step
		c.outcome.Content = withNotice(c.outcome.Content, "kaged: "+found.String()+
			". Nothing new comes of it: do something else, or say what is missing. The next time ends your work.")
	}
	payload := map[string]any{
		"run_id": v.start.RunID, "session_id": v.start.SessionID, "step": step, "call_id": c.call.ID,
		"tools": found.tools(), "repeats": found.times, "ended": again,
	}
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	c.outcome.Audit = append(slices.Clip(c.outcome.Audit), contract.NewRecord(loopDetected, v.agent.Path, payload))
}

// fingerprint is equal for calls of a tool with equal input and equal result. The order of JSON keys and white space
// do not count. For a call of a child only the child's answer counts, because ids and costs differ.
func fingerprint(name string, c *toolCall) [sha256.Size]byte {
	sum := sha256.New()
	said := cmp.Or(c.outcome.Gist, c.outcome.Content)
	for _, part := range [][]byte{[]byte(name), oneForm([]byte(c.call.Input)), []byte(said)} {
		_, _ = fmt.Fprintf(sum, "%d:", len(part))
		_, _ = sum.Write(part)
	}
	_, _ = fmt.Fprint(sum, c.outcome.Err != nil)
	return [sha256.Size]byte(sum.Sum(nil))
}

// oneForm returns JSON in a canonical form, and other text unchanged.
func oneForm(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		return text
	}
	out, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return out
}

// withNotice adds a notice to a result: as a field if the result is a JSON object, as text otherwise.
func withNotice(content, notice string) string {
	object := strings.TrimSpace(content)
	inner, ok := strings.CutSuffix(object, "}")
	if !ok || !strings.HasPrefix(object, "{") || !json.Valid([]byte(object)) {
		return strings.TrimLeft(content+"\n\n"+notice, "\n")
	}
	text, err := json.Marshal(notice)
	if err != nil {
		return content
	}
	if inner = strings.TrimSpace(inner); inner != "{" {
		inner += ","
	}
	return inner + `"notice":` + string(text) + "}"
}
