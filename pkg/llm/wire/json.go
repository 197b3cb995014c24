package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// shallow is the size up to which an event cannot nest so deeply that checking it would exhaust the stack.
const shallow = 64 << 10

// Object reads the data of an event, which must be a valid JSON object. Its members are then found without decoding
// the rest: for the few members that a delta needs this costs a fifth of encoding/json.
func Object(data []byte) (gjson.Result, error) {
	// gjson checks faster and by recursion, encoding/json knows how deep is too deep.
	valid := len(data) <= shallow && gjson.ValidBytes(data) || len(data) > shallow && json.Valid(data)
	if !valid {
		return gjson.Result{}, errors.New("the event is no JSON")
	}
	r := gjson.ParseBytes(data)
	if !r.IsObject() {
		return gjson.Result{}, errors.New("the event is no JSON object")
	}
	return r, nil
}

// Text returns a JSON string as valid UTF-8 that shares no memory with its event, and "" for any other value.
func Text(r gjson.Result) string {
	if r.Type != gjson.String {
		return ""
	}
	if !utf8.ValidString(r.Str) {
		return strings.ToValidUTF8(r.Str, "\uFFFD")
	}
	return strings.Clone(r.Str)
}
