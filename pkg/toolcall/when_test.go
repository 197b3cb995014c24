package toolcall_test

import (
	"testing"

	"kaged.dev/pkg/toolcall"
)

// A call is selected if all conditions of one case hold for its input.
func TestWhen(t *testing.T) {
	t.Parallel()
	rules := toolcall.When{
		{{Parameter: "action", Values: []string{"list", "status"}}},
		{{Parameter: "action", Values: []string{"poll"}}, {Parameter: "offset"}},
		{}, // a case without conditions matches no call
	}
	for input, want := range map[string]bool{
		`{"action":"list"}`:                    true,
		`{"action":"status","process_id":"x"}`: true,
		`{"action":"poll","offset":0}`:         true,
		`{"action":"poll"}`:                    false,
		`{"action":"poll","offset":null}`:      false,
		`{"action":"kill","offset":0}`:         false,
		`{"action":"list","action":"kill"}`:    false, // the last of two equal keys counts, as for the tool
		`{"action":["list"]}`:                  false,
		`{"Action":"list"}`:                    false,
		`{}`:                                   false,
		`null`:                                 false,
		`"list"`:                               false,
		``:                                     false,
		`{"action":"list"} {"action":"kill"}`:  false,
		"{\"action\":\"list\"":                 false,
		"{\"action\":\"\\u006cist\"}":          true,
		"\n {\"action\" : \"list\", \"x\": [{}]}\n": true,
	} {
		t.Run(input, func(t *testing.T) {
			t.Parallel()
			if got := rules.Holds([]byte(input)); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	if toolcall.When(nil).Holds([]byte(`{"action":"list"}`)) {
		t.Error("a description without a case holds")
	}
}
