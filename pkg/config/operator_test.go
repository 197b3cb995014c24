package config_test

import (
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// The configuration of one operator has aliases, a name and preferences, and an administrator's also rules for tools.
// Every other key, and a reference to the environment in any spelling, is refused with line and column.
func TestParseOperator(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		tools      bool
		wrong      string // "" for a valid text
		line       int
	}{
		{"nothing", "", false, "", 0},
		{
			"an operator's keys", "operator_name = \"Ada\"\nui.theme = \"light\"\n[models]\nfast = [\"a:b\", \"c:d\"]\n", false,
			"", 0,
		},
		{"rules by an administrator", "[default_tools]\n\"shell.*\" = {enabled = false}\n", true, "", 0},
		{"rules by an operator", "[default_tools]\n\"shell.*\" = {enabled = true}\n", false, "only an administrator", 1},
		{"rules in one line", "default_tools = {\"*\" = {enabled = true}}\n", false, "only an administrator", 1},
		{"limits", "[models]\n[limits]\nmax_steps = 100\n", true, "an administrator sets limits", 2},
		{"a budget", "budget.usd = 100.0\n", true, "an administrator sets limits", 1},
		{"a provider", "[providers.evil]\ndriver = \"openai-chat\"\nbase_url = \"http://e\"\n", true, "the deployment", 1},
		{"a quoted key", "[\"providers\".evil]\ndriver = \"openai-chat\"\n", true, "the deployment", 1},
		{"a service", "services.gateway.operator = \"root\"\n", true, "the deployment", 1},
		{"the database", "operator_name = \"Ada\"\n[database]\nurl = \"x\"\n", true, "the deployment", 2},
		{"the shared mode", "[system]\nadmin_group = \"everyone\"\n", true, "the deployment", 1},
		{"projects", "[projects]\nfirst_load = \"approve\"\n", true, "the deployment", 1},
		{"the address", "[ui]\nurl = \"https://e\"\n", true, "the address belongs to the deployment", 2},
		{"a variable", "[models]\nfast = \"a:${ANTHROPIC_API_KEY}\"\n", true, "a variable of the deployment", 2},
		{"an escaped variable", "[models]\nfast = [\"a:b\", \"a:\\u0024{KEY}\"]\n", true, "a variable of the deployment", 2},
		{"a variable in a name", "operator_name = \"${KEY}\"\n", true, "a variable of the deployment", 1},
		{"a variable in a preference", "[ui]\nlocale = \"${KEY}\"\n", true, "a variable of the deployment", 2},
		{"an unknown key", "colour = 1\n", true, "unknown key", 1},
		{"a malformed target", "[models]\nfast = \"b\"\n", true, "provider:model", 2},
		{"no TOML", "[models\n", true, "", 1},
		{"no UTF-8", "operator_name = \"\xff\"\n", true, "UTF-8", 0},
		{"too large", "# " + strings.Repeat("x", config.MaxOperatorConfig), true, "larger than", 0},
	} {
		_, err := config.ParseOperator("ada.toml", []byte(c.text), c.tools)
		if c.wrong == "" && c.line == 0 {
			if err != nil {
				t.Errorf("%s: got %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: got %v, want bad_request with %q", c.name, err, c.wrong)
			continue
		}
		if line := fault.From(err).Details["line"]; c.line > 0 && line != c.line {
			t.Errorf("%s: got line %v, want %d: %v", c.name, line, c.line, err)
		}
	}
}
