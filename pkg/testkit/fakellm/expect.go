package fakellm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/llm"
)

// expectation is a condition on a request; if it fails, its step is not played.
type expectation struct {
	kind    string
	text    string
	isError bool
	exact   bool
}

// GotUser expects the last user text to contain s. If s is written /like this/ it is a regular expression, as in the
// other expectations.
func GotUser(s string) Action { return got(expectation{kind: "user", text: s}) }

// GotSystem expects the system prompt to contain s.
func GotSystem(s string) Action { return got(expectation{kind: "system", text: s}) }

// GotResult expects one of the request's results to be a success and to contain s.
func GotResult(s string) Action { return got(expectation{kind: "tool_result", text: s, exact: true}) }

// GotError expects one of the request's results to be an error and to contain s.
func GotError(s string) Action {
	return got(expectation{kind: "tool_result", text: s, isError: true, exact: true})
}

// GotTool expects an offered tool with this dotted name.
func GotTool(name string) Action { return got(expectation{kind: "tool", text: name}) }

// GotModel expects the model's id.
func GotModel(id string) Action { return got(expectation{kind: "model", text: id}) }

// GotMaxTokens expects the limit of the answer.
func GotMaxTokens(n int) Action { return got(expectation{kind: "max_tokens", text: strconv.Itoa(n)}) }

// GotBody expects the raw body to contain s.
func GotBody(s string) Action { return got(expectation{kind: "body", text: s}) }

func got(e expectation) Action { return Action{verb: verbGot, want: &e} }

// mismatch describes a failed condition of a step, "" without one.
func mismatch(r *Request, step Step) string {
	for _, a := range step {
		if a.verb == verbGot && !a.want.holds(r) {
			return fmt.Sprintf("expected %s\n%s", a.want, a.want.have(r))
		}
	}
	return ""
}

// String formats the expectation as in a script.
func (e *expectation) String() string {
	if e.isError {
		return fmt.Sprintf("%s is_error %q", e.kind, e.text)
	}
	return fmt.Sprintf("%s %q", e.kind, e.text)
}

func (e *expectation) holds(r *Request) bool {
	switch e.kind {
	case "user":
		return contains(r.LastText(), e.text)
	case "system":
		return contains(r.System, e.text)
	case "body":
		return contains(string(r.Body), e.text)
	case "model":
		return r.Model == e.text
	case "max_tokens":
		return strconv.Itoa(r.MaxTokens) == e.text
	case "tool":
		return slices.ContainsFunc(r.Tools, func(t llm.Tool) bool { return t.Name == e.text })
	case "tool_result":
		return slices.ContainsFunc(r.Results(), func(res llm.ToolResult) bool {
			return contains(res.Content, e.text) && (!e.exact || res.IsError == e.isError)
		})
	}
	return false
}

// have shows the request's value of the expected kind, as a difference by lines.
func (e *expectation) have(r *Request) string {
	var have string
	switch e.kind {
	case "user":
		have = r.LastText()
	case "system":
		have = r.System
	case "model":
		have = r.Model
	case "max_tokens":
		have = strconv.Itoa(r.MaxTokens)
	case "tool":
		for _, t := range r.Tools {
			have += t.Name + "\n"
		}
	case "tool_result":
		for _, res := range r.Results() {
			have += fmt.Sprintf("%s is_error=%v %s\n", res.Name, res.IsError, res.Content)
		}
	}
	return difference(e.text, have) + summary(r)
}

func difference(want, have string) string {
	var b strings.Builder
	for line := range strings.Lines(want) {
		b.WriteString("-" + strings.TrimSuffix(line, "\n") + "\n")
	}
	for line := range strings.Lines(clip.Marked(have, 2000, "...")) {
		b.WriteString("+" + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

func contains(s, want string) bool {
	if len(want) > 1 && strings.HasPrefix(want, "/") && strings.HasSuffix(want, "/") {
		if re, err := regexp.Compile(want[1 : len(want)-1]); err == nil {
			return re.MatchString(s)
		}
	}
	return strings.Contains(s, want)
}

// summary shows the end of a conversation.
func summary(r *Request) string {
	var b strings.Builder
	b.WriteString("the conversation ends with\n")
	for _, m := range r.Messages[max(0, len(r.Messages)-3):] {
		for _, block := range m.Blocks {
			text, err := json.Marshal(block)
			if err != nil {
				continue
			}
			fmt.Fprintf(&b, "  %s %s\n", m.Role, clip.Marked(string(text), 400, "..."))
		}
	}
	return b.String()
}
