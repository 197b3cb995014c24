// Package redact prepares texts of people and models for the record: a long value is replaced by its size and hash, a
// secret by [masked].
package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// ValueBytes is the default length above which a value is recorded by size and hash only.
const ValueBytes = 1024

// Params prepares a call's parameters for the record. Values longer than limit bytes or nested too deeply are replaced
// by their size and hash, and secrets are masked. Input that is not a JSON object is recorded as text. If short values
// or long names are too large together, the whole is replaced by size and hash.
func Params(input []byte, limit int) any {
	var value any
	err := json.Unmarshal(input, &value)
	return Parsed(input, value, err, limit)
}

// Parsed is [Params] for input that was parsed to a value of plain JSON types, or could not be parsed. It leaves the
// value as it is.
func Parsed(input []byte, value any, err error, limit int) any {
	if len(input) == 0 {
		return map[string]any{}
	}
	if err != nil {
		return redact(string(input), limit)
	}
	value = redactValue("", value, limit, maxDepth)
	if most := limit * maxValues; len(input) > most && Length(value) > most {
		return summary(string(input))
	}
	return value
}

// maxValues limits the recorded parameters of one call: to the size of this number of values of maximum length.
const maxValues = 32

// Length is the approximate size in bytes of a value of plain JSON types.
func Length(value any) int {
	const number = 8
	n := number
	switch v := value.(type) {
	case string:
		n += len(v)
	case []any:
		for i := range v {
			n += Length(v[i])
		}
	case map[string]any:
		for k := range v {
			n += len(k) + Length(v[k])
		}
	}
	return n
}

// redactValue returns a copy of a value. It replaces long and too deep parts of a value, and masks secrets.
func redactValue(key string, value any, limit, depth int) any {
	if depth < 0 {
		switch value.(type) {
		case []any, map[string]any:
			text, _ := json.Marshal(value) // the value was decoded from JSON
			return summary(string(text))
		}
	}
	switch v := value.(type) {
	case string:
		if secretKey(key) && v != "" {
			return masked
		}
		return redact(v, limit)
	case []any:
		if len(v) > maxItems {
			return map[string]any{"redacted": true, "items": len(v)}
		}
		list := make([]any, len(v))
		for i := range v {
			list[i] = redactValue(key, v[i], limit, depth-1)
		}
		return list
	case map[string]any:
		if len(v) > maxItems {
			return map[string]any{"redacted": true, "items": len(v)}
		}
		object := make(map[string]any, len(v))
		for k := range v {
			object[k] = redactValue(k, v[k], limit, depth-1)
		}
		return object
	}
	return value
}

// maxDepth is the maximum nesting of recorded lists and objects; deeper ones are replaced by their size and hash.
// Protobuf messages allow less nesting than JSON, and one unreadable record would make the whole answer unreadable.
const maxDepth = 64

// maxItems is the maximum number of recorded entries of a list or object; longer ones are replaced by their length.
const maxItems = 256

func redact(text string, limit int) any {
	if len(text) > limit {
		return summary(text)
	}
	return strings.ToValidUTF8(Mask(text), "\uFFFD")
}

// summary replaces a text that is too long for the record.
func summary(text string) map[string]any {
	sum := sha256.Sum256([]byte(text))
	return map[string]any{"redacted": true, "bytes": len(text), "sha256": hex.EncodeToString(sum[:])}
}

// Shorten returns the first n runes of text, masked.
func Shorten(text string, n int) string {
	text = Mask(text)
	count := 0
	for i := range text {
		if count++; count > n {
			return text[:i]
		}
	}
	return text
}

// secretKey reports whether every value with this name is a secret.
func secretKey(key string) bool {
	key = strings.ToLower(key)
	for _, word := range secretWords {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

var secretWords = []string{
	"password", "passwd", "secret", "token", "api_key", "apikey", "api-key", "authorization", "credential", "private_key",
}
