// Package toolcall tests calls of tools by their parameters, before they are made.
package toolcall

import (
	"encoding/json"
	"slices"
)

// When selects some of the calls of a tool: those for which all conditions of one of its cases hold.
type When []Case

// Case is a list of conditions on the parameters of one call.
type Case []Match

// Match is a condition on one parameter, a field of the call's input: its value is one of Values, or, without Values,
// it is present and not null.
type Match struct {
	Parameter string
	Values    []string
}

// Holds reports whether the input of a call matches one of the cases. Input that is not a JSON object matches no case.
func (w When) Holds(input []byte) bool {
	if len(w) == 0 {
		return false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		return false
	}
	return slices.ContainsFunc(w, func(c Case) bool {
		return len(c) > 0 && !slices.ContainsFunc(c, func(m Match) bool { return !m.holds(fields) })
	})
}

func (m Match) holds(fields map[string]json.RawMessage) bool {
	raw, ok := fields[m.Parameter]
	if !ok || string(raw) == "null" {
		return false
	}
	if len(m.Values) == 0 {
		return true
	}
	var value string
	return json.Unmarshal(raw, &value) == nil && slices.Contains(m.Values, value)
}
