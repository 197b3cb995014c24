package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
)

// MaxPayload is the maximum size of a payload that is stored completely, in bytes of JSON. The creator of a record
// shortens large texts; this limit only prevents a defect or an attack from filling the store.
const MaxPayload = 4 << 20

// maxValues is the maximum number of values in a payload, including keys and members of lists. Many small values take
// far more space in a message than in JSON.
const maxValues = 200_000

// maxDepth is the maximum nesting of a payload; deeper values are replaced. Postgres parses recursively.
const maxDepth = 100

// cut has the sizes to which a payload that is too large is cut.
type cut struct{ text, items int }

// cuts are tried in order until the payload fits.
var cuts = []cut{{math.MaxInt, math.MaxInt}, {64 << 10, 10000}, {4 << 10, 500}, {256, 50}}

// Encode returns payload as JSON that Postgres can store. Characters that it cannot store become U+FFFD, numbers that
// it cannot store become text, and values that nest too deep are left out. In a payload larger than max bytes, long
// texts and lists are cut, and "_truncated" has its size in bytes; the same applies to a payload with far too many
// values. Encode never fails.
func Encode(payload map[string]any, max int) []byte {
	size := 0
	for i, c := range cuts {
		w := writer{cut: c, truncated: size}
		w.object(payload, 0)
		if len(w.buf) <= max && w.values <= maxValues {
			return w.buf
		}
		if i == 0 {
			size = len(w.buf)
		}
	}
	return []byte(`{"_truncated":` + strconv.Itoa(size) + `}`)
}

// writer appends JSON to buf within the limits of cut.
type writer struct {
	buf []byte
	cut cut
	// truncated is the payload's full size if it is cut, 0 otherwise.
	truncated int
	values    int
}

func (w *writer) value(v any, depth int) {
	w.values++
	if depth > maxDepth {
		w.text("[nested too deep]")
		return
	}
	switch v := v.(type) {
	case nil:
		w.buf = append(w.buf, "null"...)
	case bool:
		w.buf = strconv.AppendBool(w.buf, v)
	case string:
		w.text(v)
	case int:
		w.buf = strconv.AppendInt(w.buf, int64(v), 10)
	case int32:
		w.buf = strconv.AppendInt(w.buf, int64(v), 10)
	case int64:
		w.buf = strconv.AppendInt(w.buf, v, 10)
	case float64:
		w.number(v)
	case map[string]any:
		w.object(v, depth)
	case []any:
		w.list(len(v), func(i int) { w.value(v[i], depth+1) })
	case []string:
		w.list(len(v), func(i int) { w.value(v[i], depth+1) })
	default:
		w.foreign(v, depth)
	}
}

// foreign writes a value of any other type in the form of encoding/json, if possible.
func (w *writer) foreign(v any, depth int) {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		if i, intErr := n.Int64(); intErr == nil {
			w.buf = strconv.AppendInt(w.buf, i, 10)
		} else if err == nil {
			w.number(f)
		} else {
			w.text(n.String())
		}
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		w.text(fmt.Sprint(v))
		return
	}
	var plain any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&plain); err != nil {
		w.text(string(data))
		return
	}
	w.value(plain, depth)
}

func (w *writer) object(m map[string]any, depth int) {
	w.buf = append(w.buf, '{')
	if w.truncated > 0 && depth == 0 {
		w.buf = append(w.buf, `"_truncated":`...)
		w.buf = strconv.AppendInt(w.buf, int64(w.truncated), 10)
	}
	n := 0
	for _, k := range sortedKeys(m) {
		if n++; n > w.cut.items {
			break
		}
		if w.buf[len(w.buf)-1] != '{' {
			w.buf = append(w.buf, ',')
		}
		w.text(k)
		w.buf = append(w.buf, ':')
		w.value(m[k], depth+1)
	}
	w.buf = append(w.buf, '}')
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *writer) list(n int, item func(i int)) {
	w.buf = append(w.buf, '[')
	for i := range min(n, w.cut.items) {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		item(i)
	}
	w.buf = append(w.buf, ']')
}

func (w *writer) number(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.text(strconv.FormatFloat(f, 'g', -1, 64))
		return
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		w.buf = strconv.AppendInt(w.buf, int64(f), 10)
		return
	}
	w.buf = strconv.AppendFloat(w.buf, f, 'g', -1, 64)
}

const hex = "0123456789abcdef"

// text writes s, cut to the limit at a whole character.
func (w *writer) text(s string) {
	cutOff := len(s) > w.cut.text
	if cutOff {
		s = clip.Bytes(s, w.cut.text)
	}
	w.buf = append(w.buf, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				w.buf = append(append(w.buf, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		if b >= 0x20 && b != '"' && b != '\\' {
			i++
			continue
		}
		w.buf = append(w.buf, s[start:i]...)
		w.escape(b)
		i++
		start = i
	}
	w.buf = append(w.buf, s[start:]...)
	if cutOff {
		w.buf = append(w.buf, "…"...)
	}
	w.buf = append(w.buf, '"')
}

// escape writes an ASCII character that has to be escaped in JSON text, and U+FFFD for NUL, which Postgres cannot
// store.
func (w *writer) escape(b byte) {
	switch b {
	case '"', '\\':
		w.buf = append(w.buf, '\\', b)
	case '\n':
		w.buf = append(w.buf, '\\', 'n')
	case '\r':
		w.buf = append(w.buf, '\\', 'r')
	case '\t':
		w.buf = append(w.buf, '\\', 't')
	case 0:
		w.buf = append(w.buf, "\uFFFD"...)
	default:
		w.buf = append(w.buf, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
	}
}
