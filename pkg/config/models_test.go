package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// An operator's facts about a provider's models are read with prices, and each invalid value is refused with its
// position.
func TestModelsOfAProvider(t *testing.T) {
	t.Parallel()
	const head = "[providers.box]\ndriver = \"openai-chat\"\n" +
		"base_url = \"http://127.0.0.1:1/v1\"\n[[providers.box.models]]\n"
	f, err := config.Parse("local.toml", []byte(head+`id = "qwen3:32b"
name = "Qwen"
context_window = 40960
max_output = 8192
price = {input = 0.5, output = 1.5, cache_read = 0.05}
[[providers.box.models]]
id = "free"
price = {input = 0}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Model{
		{
			ID: "qwen3:32b", Name: "Qwen", ContextWindow: 40960, MaxOutput: 8192,
			Price: &config.ModelPrice{Input: 0.5, Output: 1.5, CacheRead: 0.05},
		},
		{ID: "free", Price: &config.ModelPrice{}},
	}
	if d := cmp.Diff(want, f.Providers["box"].Models); d != "" {
		t.Error(d)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no id":              {"name = \"x\"\n", "a model has an id"},
		"twice":              {"id = \"a\"\n[[providers.box.models]]\nid = \"a\"\n", `the model "a" stands twice`},
		"negative window":    {"id = \"a\"\ncontext_window = -1\n", `context_window of "a"`},
		"window too large":   {"id = \"a\"\ncontext_window = 100000001\n", `context_window of "a"`},
		"negative output":    {"id = \"a\"\nmax_output = -5\n", `max_output of "a"`},
		"negative price":     {"id = \"a\"\nprice = {output = -0.1}\n", `a price of "a"`},
		"price not a number": {"id = \"a\"\nprice = {cache_write = nan}\n", `a price of "a"`},
		"infinite price":     {"id = \"a\"\nprice = {cache_read = inf}\n", `a price of "a"`},
		"price too high":     {"id = \"a\"\nprice = {input = 1000001}\n", `a price of "a"`},
		"unknown key":        {"id = \"a\"\nprices = {}\n", `unknown key`},
	} {
		_, err := config.Parse("local.toml", []byte(head+c.text))
		msg := fault.From(err).Msg
		if err == nil || !strings.Contains(msg, c.want) || !strings.HasPrefix(msg, "local.toml:") {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}
