package check_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
)

// A text that Postgres cannot store, or that is too long, is refused with the name of its field.
func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		max   int
		ok    bool
	}{
		"plain":          {"ein Wort", 0, true},
		"empty":          {"", 3, true},
		"characters":     {"äöü", 3, true},
		"one too many":   {"äöüß", 3, false},
		"NUL":            {"a\x00b", 0, false},
		"broken UTF-8":   {"a\xff", 0, false},
		"half a letter":  {"\xc3", 0, false},
		"line and tab":   {"a\n\tb", 0, true},
		"private use":    {"\U0010FFFD", 1, true},
		"lone surrogate": {"\xed\xa0\x80", 0, false},
	} {
		err := check.Text("label", c.value, c.max)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (!errors.Is(err, fault.ValidationFailed) ||
			!cmp.Equal(fault.From(err).Details["fields"], any([]string{"label"}))) {
			t.Errorf("%s: %v %v", name, err, fault.From(err).Details)
		}
	}
}

// An identifier is short, not empty, and text.
func TestID(t *testing.T) {
	for value, ok := range map[string]bool{
		"music-site": true, "": false, "a\x00": false, strings.Repeat("a", check.MaxID+1): false,
	} {
		if err := check.ID("session", value); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
		if check.Findable(value) != ok {
			t.Errorf("%q findable = %v", value, !ok)
		}
	}
}

// A text with any bytes can be stored after NUL and invalid bytes are replaced.
func TestStorable(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "a\x00b": "a\uFFFDb", "a\xff": "a\uFFFD"} {
		if got := check.Storable(in); got != want || check.Text("field", got, 0) != nil {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
