// Package toolcall judges calls of tools by their parameters, before they are made.
package toolcall

import (
	"encoding/json"
	"slices"
)

// ReadWhen describes the calls of a tool that only look: those for which all conditions of one of its cases hold.
type ReadWhen []Case

// Case is a list of conditions on the parameters of one call.
type Case []Match

// Match is a condition on one parameter, a field of the call's input: it is one of Values, or, without Values, it is there and
// not null.
type Match struct {
	Parameter string
	Values    []string
}

// OnlyLooks reports whether a call with this input only looks. Input that is no object does not.
func (r ReadWhen) OnlyLooks(input []byte) bool {
	if len(r) == 0 {
		return false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		return false
	}
	return slices.ContainsFunc(r, func(c Case) bool {
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
