// Package check validates request fields before they reach a rule or the store.
//
// Postgres text cannot hold a NUL byte or invalid UTF-8. Every string of a request that becomes a query's argument
// passes [Text] or [ID] first, so that a bad string is reported as the caller's mistake and not as an internal error.
package check

import (
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/fault"
)

// MaxID is the longest identifier in bytes. Ids are ULIDs or slugs; no id is longer.
const MaxID = 200

// Field returns validation_failed about one field; format and args make its sentence.
func Field(field, format string, args ...any) *fault.Error {
	return fault.New(fault.ValidationFailed, format, args...).With("fields", []string{field})
}

// Text fails with validation_failed if value cannot be stored as text or has more than max characters; 0 is no limit.
func Text(field, value string, max int) error {
	switch {
	case !utf8.ValidString(value):
		return Field(field, "%s must be valid UTF-8 text.", field)
	case strings.ContainsRune(value, 0):
		return Field(field, "%s must not hold NUL characters.", field)
	case max > 0 && utf8.RuneCountInString(value) > max:
		return Field(field, "%s must have at most %d characters.", field, max)
	}
	return nil
}

// Storable returns s in a form that [Text] accepts: NUL and invalid UTF-8 become U+FFFD.
func Storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// ID fails with validation_failed if value cannot be an identifier: it is empty, too long or no text.
func ID(field, value string) error {
	if value == "" {
		return Field(field, "%s must not be empty.", field)
	}
	if len(value) > MaxID {
		return Field(field, "%s must have at most %d characters.", field, MaxID)
	}
	return Text(field, value, 0)
}

// Findable reports whether an identifier in a URL path is well formed. The caller answers a malformed one with
// not_found, as any unknown one, without a query.
func Findable(id string) bool { return ID("id", id) == nil }

// Setting is the value of a configuration key.
type Setting struct {
	Key   string
	Value int64
}

// Positive fails with bad_request for the first setting that is 0 or less.
func Positive(settings ...Setting) error {
	for _, s := range settings {
		if s.Value <= 0 {
			return fault.New(fault.BadRequest, "%s must be more than 0.", s.Key)
		}
	}
	return nil
}
