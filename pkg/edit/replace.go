// Package edit changes text: exact replacements, and the unified diffs that show changes.
package edit

import (
	"strings"
	"unsafe"

	"kaged.dev/pkg/fault"
)

// Change is a replacement in a text: the bytes from Start to End become Text.
type Change struct {
	Start, End int
	Text       string
}

// MaxReplacements is the maximum number of replaced occurrences.
const MaxReplacements = 100_000

// Replace returns the changes that replace old by new in text: one change, or one for each occurrence if all is set.
// Line endings are kept: in a text with \r\n, each \n of old matches \r\n, and each \n of new is written as \r\n.
// Errors: no_change; old_string_not_found, with the nearest text in its details; multiple_matches, with their count;
// invalid_params for more than [MaxReplacements] occurrences.
func Replace(text, old, new string, all bool) ([]Change, error) {
	if old == new {
		return nil, fault.New(fault.NoChange, "old_string and new_string are the same.")
	}
	if old == "" {
		return nil, fault.New(fault.InvalidParams, "old_string is empty; give the text to replace.").
			With("field", "old_string")
	}
	old, new, count := fit(text, old, new)
	switch {
	case count == 0:
		return nil, notFound(text, old)
	case count > MaxReplacements:
		return nil,
			fault.New(fault.InvalidParams, "old_string occurs %d times; at most %d are replaced at once.", count,
				MaxReplacements).
				With("field", "old_string").
				With("count", count)
	case count > 1 && !all:
		return nil, fault.New(fault.MultipleMatches, "old_string occurs %d times; make it unique or set replace_all.", count).
			With("count", count)
	case old == new:
		return nil, fault.New(fault.NoChange, "old_string and new_string differ only in line endings, which are kept.")
	}
	changes := make([]Change, 0, count)
	for at := 0; len(changes) < count; {
		start := at + strings.Index(text[at:], old)
		at = start + len(old)
		changes = append(changes, Change{start, at, new})
	}
	return changes, nil
}

// fit adapts old and new to the line endings of text, and counts the occurrences of the adapted old.
func fit(text, old, new string) (string, string, int) {
	crlf := strings.Count(text, "\r\n")
	if crlf == 0 {
		return old, new, strings.Count(text, old)
	}
	if crlf == strings.Count(text, "\n") {
		old, new = toCRLF(old), toCRLF(new)
		return old, new, strings.Count(text, old)
	}
	// Both endings occur: search for the text as given, and with \r\n if that has no match.
	if n := strings.Count(text, old); n > 0 {
		return old, new, n
	}
	old, new = toCRLF(old), toCRLF(new)
	return old, new, strings.Count(text, old)
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// Apply returns text with the changes applied. The changes are sorted and do not overlap.
func Apply(text string, changes []Change) string {
	b := Append(make([]byte, 0, Size(text, changes)), text, changes)
	return unsafe.String(unsafe.SliceData(b), len(b)) // b changes no more
}

// Size returns the length of the text that [Apply] returns.
func Size(text string, changes []Change) int {
	size := len(text)
	for _, c := range changes {
		size += len(c.Text) - (c.End - c.Start)
	}
	return size
}

// Append appends the text that [Apply] returns to a slice.
func Append(b []byte, text string, changes []Change) []byte {
	at := 0
	for _, c := range changes {
		b = append(append(b, text[at:c.Start]...), c.Text...)
		at = c.End
	}
	return append(b, text[at:]...)
}
