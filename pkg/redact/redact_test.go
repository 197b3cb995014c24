package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/redact"
)

// Likely secrets are masked, other text is unchanged.
func TestMask(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain text, tasks-1 and disk-usage":       "plain text, tasks-1 and disk-usage",
		"key sk-ant-api03-abcdefghijkl":            "key [masked]",
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789": "[masked]", "AKIAIOSFODNN7EXAMPLE": "[masked]",
		"xoxb-1234567890-abc": "[masked]",
		"curl -H 'Authorization: Bearer abcdefgh12345678' x": "curl -H 'Authorization: Bearer " +
			"[masked]' x",
		"git clone https://me:s3cret@example.org/x": "git clone https://me:[masked]@example.org/x",
		"export API_KEY=abc DB_PASSWORD='x y' NAME=ok; run": "export API_KEY=[masked] " +
			"DB_PASSWORD=[masked] NAME=ok; run",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- tail": "[masked] tail",
		"a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl b":                    "a [masked] b",
	} {
		if got := redact.Mask(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// Recorded parameters are limited, and masked by name and by form; input other than JSON is recorded as text
// (T-AUD-01).
func TestParams(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		`{"path":"a","n":3,"env":{"DB_TOKEN":"x","PLAIN":"y","EMPTY_TOKEN":""}}`: `{"env":{"DB_TOKEN":"[masked]",` +
			`"EMPTY_TOKEN":"","PLAIN":"y"},"n":3,"path":"a"}`,
		`{"list":["sk-abcdefghijklmnopqrstuvwx",1,null]}`: `{"list":["[masked]",1,null]}`,
		`{"content":"0123456789012345678901234567890"}`: `{"content":{"bytes":31,"redacted":true,` +
			`"sha256":"0ca68b5e8d3e18c1d6a01ac7e1e16cdc5d2f24a4e0ba3eda7a31a0bd6cc9b3f6"}}`,
		``: `{}`, `{"a":`: `"{\"a\":"`, `[1]`: `[1]`,
	} {
		got, err := json.Marshal(redact.Params([]byte(input), 30))
		if err != nil {
			t.Fatal(err)
		}
		if g, w := strip(string(got)), strip(want); g != w {
			t.Errorf("%s became %s", input, got)
		}
	}
	many := `{"list":[` + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + `]}`
	if got, _ := json.Marshal(redact.Params([]byte(many), 30)); string(got) != `{"list":{"items":1000,"redacted":true}}` {
		t.Errorf("a long list became %s", got)
	}
	for name, long := range map[string]string{
		"a long name":  `{"` + strings.Repeat("x", 2000) + `":1}`,
		"many values":  `{"a":["` + strings.Repeat(strings.Repeat("x", 29)+`","`, 100) + `"]}`,
		"nested lists": `{"a":` + strings.Repeat("["+strings.Repeat("1,", 100), 9) + `1` + strings.Repeat("]", 9) + `}`,
	} {
		got, ok := redact.Params([]byte(long), 30).(map[string]any)
		if !ok || got["redacted"] != true || got["bytes"] != len(long) || len(got) != 3 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The value that a record is made of stays as it is.
func TestParsedLeavesTheValue(t *testing.T) {
	t.Parallel()
	value := func() any { return map[string]any{"list": []any{"sk-abcdefghijklmnopqrstuvwx"}, "token": "x"} }
	parsed := value()
	got := redact.Parsed([]byte("{}"), parsed, nil, 30)
	if want := any(map[string]any{"list": []any{"[masked]"}, "token": "[masked]"}); !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !cmp.Equal(parsed, value()) {
		t.Errorf("the value became %v", parsed)
	}
}

// The record of parameters with any nesting can be decoded by its receiver.
func TestDeepParams(t *testing.T) {
	t.Parallel()
	for name, nest := range map[string][2]string{"lists": {"[", "]"}, "objects": {`{"a":`, "}"}} {
		for _, depth := range []int{10, 64, 65, 5_000, 9_990} {
			input := `{"path":` + strings.Repeat(nest[0], depth) + `"x"` + strings.Repeat(nest[1], depth) + `}`
			got := redact.Params([]byte(input), 1<<10).(map[string]any)
			payload, err := structpb.NewStruct(got)
			if err != nil {
				t.Fatal(err)
			}
			data, err := proto.Marshal(payload)
			if err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(data, &structpb.Struct{}); err != nil {
				t.Errorf("%d %s: %v", depth, name, err)
			}
			text, err := json.Marshal(got)
			if err != nil || strings.Contains(string(text), "redacted") != (depth > 64) {
				t.Errorf("%d %s: %s, %v", depth, name, text, err)
			}
		}
	}
}

// strip removes a hash, which another test checks.
func strip(s string) string {
	if i := strings.Index(s, `"sha256":"`); i >= 0 {
		return s[:i] + s[i+74:]
	}
	return s
}

// Shorten counts characters.
func TestShorten(t *testing.T) {
	t.Parallel()
	if got := redact.Shorten(strings.Repeat("é", 300), 200); got != strings.Repeat("é", 200) {
		t.Errorf("%d bytes", len(got))
	}
	if got := redact.Shorten("short", 200); got != "short" {
		t.Errorf("%q", got)
	}
}
