package frames

import (
	"bytes"
	"encoding/json"

	"kaged.dev/pkg/clip"
)

// The sizes, in bytes of JSON, to which a frame of unknown type is shortened: of a text, and of an object.
const (
	keptText   = 256
	keptObject = 4 << 10
)

// divide splits m, which has two or more frames, into two messages.
func divide(m Message) (first, second Message) {
	first, second = m, m
	first.Count = m.Count / 2
	second.First, second.Count = m.First+int64(first.Count), m.Count-first.Count
	end := 0 // of the first half
	for range first.Count {
		end += bytes.IndexByte(m.Data[end:], '\n') + 1
	}
	first.Data, second.Data = m.Data[:end-1], m.Data[end:]
	return first, second
}

// shortened returns a frame made by [AppendFrame] with "truncated": true in its payload, its long texts cut, and
// its long lists and objects emptied. Any other input is returned unchanged.
func shortened(frame []byte) []byte {
	const mark = `"payload":`
	at := bytes.Index(frame, []byte(mark)) + len(mark)
	var fields map[string]json.RawMessage
	if at < len(mark) || json.Unmarshal(frame[at:len(frame)-1], &fields) != nil || fields == nil {
		return frame
	}
	shortenFields(fields)
	fields["truncated"] = json.RawMessage("true")
	return append(append(bytes.Clone(frame[:at]), plain(fields)...), '}')
}

func shortenFields(fields map[string]json.RawMessage) {
	for key, value := range fields {
		fields[key] = shortenValue(value)
	}
}

// shortenValue returns a short value of the same JSON type.
func shortenValue(v json.RawMessage) json.RawMessage {
	if len(v) <= keptText {
		return v
	}
	switch v[0] {
	case '"':
		var s string
		if json.Unmarshal(v, &s) != nil {
			return json.RawMessage(`""`)
		}
		return plain(clip.JSON(s, keptText))
	case '[':
		return json.RawMessage("[]")
	case '{':
		var fields map[string]json.RawMessage
		if json.Unmarshal(v, &fields) == nil {
			shortenFields(fields)
			if short := plain(fields); len(short) <= keptObject {
				return short
			}
		}
		return json.RawMessage("{}")
	}
	return json.RawMessage("0") // a number with hundreds of digits
}

// plain returns v as JSON without escaping <, > and &.
func plain(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
