package kit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/termtext"
)

// Outline returns a JSON value on one line of at most n characters, in a form for people: an object as its fields, a
// text without quotes, an error as its code and message. Invalid JSON is returned unchanged.
func Outline(raw string, n int) string {
	dec := json.NewDecoder(strings.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return Brief(raw, n)
	}
	var failed struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal([]byte(raw), &failed) == nil && failed.Error.Message != "" {
		return Brief(failed.Error.Message+" ("+failed.Error.Code+")", n)
	}
	var first, rest []string
	for dec.More() {
		key, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return Brief(raw, n)
		}
		shown := field(value)
		switch {
		case shown == "":
		case slices.Contains(subjects, key.(string)):
			first = append(first, key.(string)+"="+shown)
		default:
			rest = append(rest, key.(string)+"="+shown)
		}
	}
	return Brief(strings.Join(append(first, rest...), " "), n)
}

// subjects are the fields with the subject of a call. They come first, because the end may be cut off.
var subjects = []string{"path", "command", "pattern", "text"}

// field returns a field's value, "" for an empty one: null, false, an empty text or list.
func field(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		if text = strings.TrimSpace(text); strings.ContainsAny(text, " \t\r\n") {
			return `"` + text + `"`
		}
		return text
	}
	switch string(value) {
	case "null", "false", "[]", "{}":
		return ""
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return ""
	}
	return compact.String()
}

// Brief returns text on one line, cut to n characters, with an escape for every character that a terminal would not
// show. A run of white space becomes one space.
func Brief(text string, n int) string {
	var b strings.Builder
	count, blank := 0, false
	for at, r := range text {
		space := r == '\n' || r == '\t' || r == '\r' || r == ' '
		if space && blank {
			continue
		}
		if count++; count > n {
			return termtext.Line(b.String()) + "…"
		}
		blank = space
		if space {
			b.WriteByte(' ')
		} else {
			_, size := utf8.DecodeRuneInString(text[at:])
			b.WriteString(text[at : at+size])
		}
	}
	return termtext.Line(b.String())
}
