package loop

import (
	"encoding/json"
	"testing"

	"kaged.dev/pkg/llm"
)

// The kept item of a list of tools is that of this list alone, however its texts are divided.
func TestToolsItem(t *testing.T) {
	t.Parallel()
	tool := func(name, description, schema string) llm.Tool {
		return llm.Tool{Name: name, Description: description, Schema: json.RawMessage(schema)}
	}
	for _, c := range []struct {
		tools []llm.Tool
		want  string
	}{
		{nil, `{"kind":"tools","tools":[]}`},
		{
			[]llm.Tool{tool("ab", "c", `{"b":1,"a":2}`)},
			`{"kind":"tools","tools":[{"description":"c","name":"ab","schema":{"a":2,"b":1}}]}`,
		},
		{
			[]llm.Tool{tool("a", "bc", `{"b":1,"a":2}`)},
			`{"kind":"tools","tools":[{"description":"bc","name":"a","schema":{"a":2,"b":1}}]}`,
		},
	} {
		for range 2 { // made, then kept
			got := toolsItemOf(c.tools)
			if string(got.json) != c.want {
				t.Errorf("got %s, want %s", got.json, c.want)
			}
			if value, err := json.Marshal(got.value); err != nil || string(value) != c.want {
				t.Errorf("the value is %s, %v, want %s", value, err, c.want)
			}
		}
	}
}
