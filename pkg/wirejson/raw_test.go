package wirejson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"kaged.dev/pkg/jsondepth"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// A text that every client parses alike stays JSON, and any other becomes a string.
func TestRaw(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n) }
	for name, c := range map[string]struct {
		in    string
		plain bool
	}{
		"object": {`{"a":1}`, true}, "list": {`[1,2]`, true}, "null": {`null`, true}, "text": {`"x"`, true},
		"large integer": {`{"n":9223372036854775807}`, true}, "digits": {"1" + strings.Repeat("0", 308), true},
		"100 levels": {nested(100), true}, "101 levels": {nested(101), false}, "20000 levels": {nested(20000), false},
		"half": {`{"a":`, false}, "empty": {``, false}, "two values": {`1 2`, false}, "not UTF-8": {"\"\xff\"", false},
		"key twice": {`{"a":1,"a":2}`, false}, "key twice by escape": {`{"a":1,"\u0061":2}`, false},
		"key twice deeper": {`[{"b":{"a":1, "a" : 2}}]`, false}, "key in two objects": {`[{"a":1},{"a":2},{}]`, true},
		"number too large": {`[1e400]`, false}, "too many digits": {"1" + strings.Repeat("0", 309), false},
		"tiny number":   {`1e-400`, true},
		"escaped quote": {`{"a\"":"]\\"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, _ := json.Marshal(strings.ToValidUTF8(c.in, "\uFFFD"))
			if c.plain {
				want = []byte(c.in)
			}
			if got := wirejson.Raw(c.in); string(got) != string(want) {
				t.Errorf("got %.100s, want %.100s", got, want)
			}
		})
	}
	if got := wirejson.Raw(" { \"a\" : [ 1 , true ] }\n"); string(got) != `{"a":[1,true]}` {
		t.Errorf("got %s, want no white space", got)
	}
}

// For any text of a model, the frame around it is JSON, and decoding it gives the text.
func FuzzRaw(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"a":[1,{"b":null}]}`, `[1e999]`, `{"a":1,"a":2}`, "\xff", `{"\ud800":1}`, `[[[[`, ` 1 `,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		frame, err := wirejson.Marshal(&apiv1.MessageToolCall{Input: wirejson.Raw(text)})
		if err != nil || !json.Valid(frame) || jsondepth.Of(frame) > wirejson.MaxDepth+1 {
			t.Fatalf("%q became %s and error %v, want JSON", text, frame, err)
		}
		var any any
		if err := json.Unmarshal(frame, &any); err != nil {
			t.Fatalf("%q became %s, which a client cannot read: %v", text, frame, err)
		}
		if jsondepth.Of(frame) > wirejson.MaxDepth {
			return // one level more than is allowed in a request
		}
		var back apiv1.MessageToolCall
		if err := wirejson.Unmarshal(frame, &back); err != nil {
			t.Fatalf("%s cannot be read: %v", frame, err)
		}
		if again, err := wirejson.Marshal(&back); err != nil || !bytes.Equal(again, frame) {
			t.Fatalf("%s became %s and error %v", frame, again, err)
		}
	})
}
