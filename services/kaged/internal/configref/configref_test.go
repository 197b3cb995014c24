package configref_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"kaged.dev/services/gateway"
	"kaged.dev/services/kaged"
	"kaged.dev/services/kaged/internal/configref"
)

// The page has a row for every key, with its default and its purpose, and no name from the code.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := configref.Page("../../../..", kaged.Modules())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `body_limit`, `header_limit` | 1048576, 32768 | `body_limit` is the maximum size of a request's " +
			"body, `header_limit` that of its header. |",
		"| `idle_timeout` | `1m30s` |", "| `audit_window`", "## [services.tool-runner]",
		"| `keepalive`, `keepalive_timeout` | `keepalive` is the silence",
		"| `auth` | none |", "`10m`", "`24h`",
	} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.TrimPrefix(want, "| ")) {
			t.Errorf("the page does not have %q", want)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[gateway.Config]()) {
		if key := f.Tag.Get("toml"); !strings.Contains(page, "`"+key+"`") {
			t.Errorf("the page does not tell of %s", key)
		}
	}
	if empty := regexp.MustCompile(`(?m)\|\s+\|$`).FindString(page); empty != "" {
		t.Error("a key says nothing of itself")
	}
	if !strings.HasPrefix(page, "# Configuration\n") {
		t.Error("the page has no title")
	}
}
