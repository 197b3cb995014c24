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

// loopDetected is the record of calls that go round in a circle.
const loopDetected = "loop.detected"

// longestCycle is how many calls a cycle has at most that is noticed.
const longestCycle = 3

// repeats notices calls of an invocation that are made over and over with the same input and the same result: one
// call, or a cycle of a few. It is told of the calls in their order. Its zero value is ready.
type repeats struct {
	recent []made            // the last ones, at most longestCycle
	runs   [longestCycle]int // at i: how many calls in a row are equal to the one i+1 before them
	told   map[string]int    // by cycle, in which step the model was told
	over   *fault.Error      // why the agent is ended, nil as long as it is not
}

// made is a call with its result.
type made struct {
	mark [sha256.Size]byte
	tool string
}

// circle is a detected repetition.
type circle struct {
	calls []made
	times int
}

// note takes in a call. It returns the cycle that it closes once more, if it is one.
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

// forget begins anew: other events between two calls make them different.
func (r *repeats) forget() { r.recent, r.runs = nil, [longestCycle]int{} }

// key is the same for a cycle wherever it is looked at.
func (c circle) key() string {
	prints := make([]string, len(c.calls))
	for i, m := range c.calls {
		prints[i] = string(m.mark[:])
	}
	slices.Sort(prints)
	return strings.Join(prints, "")
}

// tools are the names of the calls.
func (c circle) tools() []any {
	list := make([]any, len(c.calls))
	for i, m := range c.calls {
		list[i] = m.tool
	}
	return list
}

// String names the calls and their number.
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

// looped judges a call that is over. The first time that calls go round in a circle their result says so; the next
// time in a later turn the agent is ended. Calls that wait for outside events are no circle.
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
		return // the model has not read it yet
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

// fingerprint is the same for calls of a tool with the same input and the same result. The order of keys and spaces
// make no difference. Of a call of a child its own words count: each has another id and another cost.
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

// oneForm returns JSON in one form, and other text as it is.
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

// withNotice adds a sentence to a result: as a field of its own where that is a JSON object.
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
