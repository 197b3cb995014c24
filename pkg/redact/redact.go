// Package redact prepares texts of people and models for the record: a long value becomes its size and hash, a
// secret becomes [masked].
package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// ValueBytes is the default length above which a value is not recorded as it is.
const ValueBytes = 1024

// Params returns a call's parameters fit to be recorded. Values longer than limit bytes or nested too deeply are
// replaced by their size and hash, secrets are masked. Input that is no JSON object is recorded as text; too long a
// sum of short values or of long names becomes a size and a hash.
func Params(input []byte, limit int) any {
	var value any
	if len(input) == 0 {
		return map[string]any{}
	}
	if err := json.Unmarshal(input, &value); err != nil {
		return redact(string(input), limit)
	}
	value = redactValue("", value, limit, maxDepth)
	if most := limit * maxValues; len(input) > most && Length(value) > most {
		return summary(string(input))
	}
	return value
}

// maxValues is how many values of the greatest length the parameters of one call are recorded as they are.
const maxValues = 32

// Length is about how many bytes a value of plain JSON types takes.
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

// redactValue replaces long and too deep parts of a value, and masks secrets.
func redactValue(key string, value any, limit, depth int) any {
	if depth < 0 {
		switch value.(type) {
		case []any, map[string]any:
			text, _ := json.Marshal(value) // it came out of JSON
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
		for i := range v {
			v[i] = redactValue(key, v[i], limit, depth-1)
		}
	case map[string]any:
		if len(v) > maxItems {
			return map[string]any{"redacted": true, "items": len(v)}
		}
		for k := range v {
			v[k] = redactValue(k, v[k], limit, depth-1)
		}
	}
	return value
}

// maxDepth is how many lists and objects in each other are recorded; deeper ones are replaced by their size and
// hash. Messages may not be nested as deeply as JSON may, and one unreadable record would take the whole answer
// with it.
const maxDepth = 64

// maxItems is how many entries of a list or object are recorded; longer ones are replaced by their length.
const maxItems = 256

func redact(text string, limit int) any {
	if len(text) > limit {
		return summary(text)
	}
	return strings.ToValidUTF8(Mask(text), "\uFFFD")
}

// summary stands for a text that is too long to be recorded.
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

// secretKey reports whether every value under this name is a secret.
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
