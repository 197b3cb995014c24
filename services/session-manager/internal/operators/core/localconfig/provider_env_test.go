package localconfig_test

import (
	"strings"
	"testing"
)

// Variables can name a model and its server. If both are set the target is usable; an unset one makes it unusable, so
// that the next target of the alias is tried.
func TestModelFromEnvironment(t *testing.T) {
	const text = `
[models]
smart = ["local:${KAGED_TEST_MODEL}", "anthropic:claude-opus"]
[providers.local]
driver = "openai-chat"
base_url = "${KAGED_TEST_BASE_URL}"
[providers.anthropic]
api_key = "k"
`
	t.Setenv("KAGED_TEST_BASE_URL", "http://box:11434/v1")
	t.Setenv("KAGED_TEST_MODEL", "qwen3:32b")
	_, source := file(t, text)
	route, err := read(t, source).Route("smart")
	if err != nil {
		t.Fatal(err)
	}
	if got := route.Targets[0]; got.Model != "qwen3:32b" || got.BaseURL != "http://box:11434/v1" || got.Unusable != nil {
		t.Errorf("the first target is %+v", got)
	}
	t.Setenv("KAGED_TEST_MODEL", "")
	_, source = file(t, text)
	if route, err = read(t, source).Route("smart"); err != nil {
		t.Fatal(err)
	}
	if got := route.Targets[0].Unusable; got == nil || !strings.Contains(got.Msg, "KAGED_TEST_MODEL") {
		t.Errorf("a target without its model is unusable because of %v", got)
	}
	if route.Targets[1].Unusable != nil {
		t.Errorf("the second target is unusable: %v", route.Targets[1].Unusable)
	}
}
