package wirejson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"kaged.dev/pkg/jsondepth"
)

// Raw returns the value of a field with (kaged.common.v1.raw_json) for a text that should be JSON: the text without
// white space, or the text as a JSON string if it is not one JSON value in UTF-8 that every client parses alike. Such a
// value nests at most [MaxDepth] levels deep, has no duplicate keys, and its numbers fit a float64.
func Raw(text string) []byte {
	if !portable([]byte(text)) {
		return AppendString(nil, text)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return AppendString(nil, text)
	}
	return b.Bytes()
}

// appendRaw appends the bytes of a field with (kaged.common.v1.raw_json), null if empty. Bytes that are not JSON
// become a string, so that a field never breaks the JSON around it.
func appendRaw(dst, raw []byte) []byte {
	switch {
	case len(raw) == 0:
		return append(dst, "null"...)
	case !utf8.Valid(raw) || jsondepth.Of(raw) > MaxDepth || !json.Valid(raw):
		return AppendString(dst, string(raw))
	}
	return append(dst, raw...)
}

// portable reports whether data is JSON as described at [Raw].
func portable(data []byte) bool {
	if !utf8.Valid(data) || jsondepth.Of(data) > MaxDepth || !json.Valid(data) {
		return false
	}
	s := scanner{data: data}
	return s.value()
}

// scanner walks well-formed JSON without storing values.
type scanner struct {
	data []byte
	i    int
}

// value skips the next value and reports whether it is portable.
func (s *scanner) value() bool {
	s.space()
	switch c := s.data[s.i]; {
	case c == '{':
		keys := map[string]bool{}
		return s.members('}', func() bool {
			key := s.text()
			given := keys[key]
			keys[key] = true
			s.space()
			s.i++ // skip the colon
			return !given && s.value()
		})
	case c == '[':
		return s.members(']', s.value)
	case c == '"':
		s.skipText()
		return true
	case c == '-' || c >= '0' && c <= '9':
		start := s.i
		s.word()
		return portableNumber(s.data[start:s.i])
	}
	s.word()
	return true
}

// members skips an object or a list; each skips one member.
func (s *scanner) members(end byte, each func() bool) bool {
	s.i++
	for {
		s.space()
		switch s.data[s.i] {
		case end:
			s.i++
			return true
		case ',':
			s.i++
			s.space()
		}
		if !each() {
			return false
		}
	}
}

// text skips a string and returns its value.
func (s *scanner) text() string {
	start := s.i
	s.skipText()
	quoted := s.data[start:s.i]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // it is well-formed
	return text
}

func (s *scanner) skipText() {
	for s.i++; s.data[s.i] != '"'; s.i++ {
		if s.data[s.i] == '\\' {
			s.i++
		}
	}
	s.i++
}

// word skips a number, true, false or null.
func (s *scanner) word() {
	for ; s.i < len(s.data); s.i++ {
		switch s.data[s.i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return
		}
	}
}

func (s *scanner) space() {
	for s.i < len(s.data) && (s.data[s.i] == ' ' || s.data[s.i] == '\t' || s.data[s.i] == '\n' || s.data[s.i] == '\r') {
		s.i++
	}
}

// portableNumber reports whether a number fits a float64. Without an exponent it does if it has at most 300 digits.
func portableNumber(text []byte) bool {
	if len(text) <= 300 && !bytes.ContainsAny(text, "eE") {
		return true
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return err == nil
}
