package wire_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

var legal = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// For any tool names, the names on the wire are valid, distinct, and decode to the originals; they do not depend on a
// conversation's other calls.
func TestNames(t *testing.T) {
	name := rapid.OneOf(rapid.StringMatching(`[ab_.]{1,5}`), rapid.String(), rapid.StringMatching(`[a-z.]{60,80}`))
	rapid.Check(t, func(t *rapid.T) {
		var req llm.Request
		for _, n := range rapid.SliceOf(name).Draw(t, "tools") {
			req.Tools = append(req.Tools, llm.Tool{Name: n})
		}
		for _, n := range rapid.SliceOf(name).Draw(t, "calls") {
			req.Messages = append(req.Messages, llm.Message{Blocks: []llm.Block{{Call: &llm.ToolCall{Name: n}}}})
		}
		names := wire.NewNames(req)
		sent := map[string]string{}
		check := func(n string) {
			s := names.Encode(n)
			if !legal.MatchString(s) {
				t.Fatalf("%q is sent as %q", n, s)
			}
			if other, ok := sent[s]; ok && other != n {
				t.Fatalf("%q and %q are both sent as %q", n, other, s)
			}
			sent[s] = n
			if back := names.Decode(s); back != n {
				t.Fatalf("%q is sent as %q and read as %q", n, s, back)
			}
			if legal.MatchString(n) && s != n {
				t.Fatalf("%q needs no change and is sent as %q", n, s)
			}
		}
		for _, tool := range req.Tools {
			check(tool.Name)
		}
		for _, m := range req.Messages {
			check(m.Blocks[0].Call.Name)
		}
	})
	if got := wire.NewNames(llm.Request{}).Decode("made__up"); got != "made.up" {
		t.Errorf("a name that was not sent is read as %q", got)
	}
}

// Ids of any provider become valid ids that stay distinct; valid ids stay unchanged.
func TestCallID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z:_]{1,60}`)).Draw(t, "a")
		b := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z:_]{1,60}`)).Draw(t, "b")
		ia, ib := wire.CallID(a), wire.CallID(b)
		if !legal.MatchString(ia) || len(ia) > 40 || a != b && ia == ib {
			t.Fatalf("%q becomes %q, %q becomes %q", a, ia, b, ib)
		}
		if legal.MatchString(a) && len(a) <= 40 && ia != a {
			t.Fatalf("%q becomes %q", a, ia)
		}
	})
}

// Input is an object or the model's text; sent back it is always an object that holds the model's text.
func TestCallInput(t *testing.T) {
	for raw, want := range map[string]struct{ input, object string }{
		"":             {"{}", "{}"},
		" null\n":      {"{}", "{}"},
		` {"a":1.50} `: {`{"a":1.50}`, `{"a":1.50}`},
		`{"a":1`:       {`{"a":1`, `{"invalid_json":"{\"a\":1"}`},
		`[1]`:          {`[1]`, `{"invalid_json":"[1]"}`},
		`"x"`:          {`"x"`, `{"invalid_json":"\"x\""}`},
	} {
		if got := wire.CallInput(raw); got != want.input {
			t.Errorf("%q is %q", raw, got)
		}
		if got := string(wire.ObjectInput(wire.CallInput(raw))); got != want.object {
			t.Errorf("%q is given back as %s", raw, got)
		}
	}
}

// A schema always has an object at its root, and is unchanged if it had one (T-T20-10).
func TestSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"object","properties":{"b":{},"a":{}}}`: `{"type":"object","properties":{"b":{},"a":{}}}`,
		`{"properties":{"a":{}}}`:                        `{"properties":{"a":{}},"type":"object"}`,
		`{"type":["object","null"]}`:                     `{"type":"object"}`,
		``:                                               `{"properties":{},"type":"object"}`,
		`null`:                                           `{"properties":{},"type":"object"}`,
		`true`:                                           `{"properties":{},"type":"object"}`,
		`{`:                                              `{"properties":{},"type":"object"}`,
	} {
		if got := string(wire.Schema(json.RawMessage(in))); got != want {
			t.Errorf("%s becomes %s", in, got)
		}
	}
}

// Events that are not JSON objects are refused, also those whose nesting would exhaust the stack.
func TestObject(t *testing.T) {
	for _, bad := range []string{
		"", "{", "[]", "1", `{"a":}`, `{"a":1}x`, "{\"a\":\"\x01\"}", strings.Repeat(`{"a":`, 1<<20),
	} {
		if _, err := wire.Object([]byte(bad)); err == nil {
			t.Errorf("%.20q is taken for an object", bad)
		}
	}
	deep := `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"b":"x\ud83d\ude00\ud83d` + "\xff" + `"}`
	o, err := wire.Object([]byte(deep))
	if err != nil {
		t.Fatal(err)
	}
	if got := wire.Text(o.Get("b")); got != "x😀\uFFFD\uFFFD" {
		t.Errorf("%q", got)
	}
	if wire.Text(o.Get("a")) != "" || wire.Text(o.Get("c")) != "" {
		t.Error("what is no text is read as text")
	}
}
