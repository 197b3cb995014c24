package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/schema"
)

type params struct {
	Path   string            `json:"path" doc:"Where."`
	Offset schema.Int        `json:"offset,omitempty" default:"1" min:"1" doc:"From."`
	Mode   string            `json:"mode,omitempty" enum:"a,b" default:"b"`
	All    bool              `json:"all,omitempty" default:"true"`
	Env    map[string]string `json:"env,omitempty"`
	Globs  []string          `json:"globs,omitempty"`
	Hidden int               `json:"-"`
}

// A struct defines the names, required fields, defaults and limits of its schema.
func TestOfDescribesTheStruct(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(schema.Of[params]().Document())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"additionalProperties":false,"properties":{` +
		`"all":{"default":true,"type":"boolean"},` +
		`"env":{"additionalProperties":{"type":"string"},"type":"object"},` +
		`"globs":{"items":{"type":"string"},"type":"array"},` +
		`"mode":{"default":"b","enum":["a","b"],"type":"string"},` +
		`"offset":{"default":1,"description":"From.","minimum":1,"type":"integer"},` +
		`"path":{"description":"Where.","type":"string"}},"required":["path"],"type":"object"}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

// Valid input is read with its defaults. Integers may be written as 3.0 or 3e0, as JSON Schema allows.
func TestDecodeReadsWhatTheSchemaAccepts(t *testing.T) {
	t.Parallel()
	s := schema.Of[params]()
	for input, want := range map[string]params{
		`{"path":"x"}`:              {Path: "x", Offset: 1, Mode: "b", All: true},
		`{"path":"","offset":3.0}`:  {Offset: 3, Mode: "b", All: true},
		`{"path":"x","offset":3e1}`: {Path: "x", Offset: 30, Mode: "b", All: true},
		`{"path":"x","mode":"a","all":false,"env":{"A":"1"},"globs":["*"]}`: {
			Path: "x", Offset: 1, Mode: "a", Env: map[string]string{"A": "1"}, Globs: []string{"*"},
		},
		`{"path":"x","offset":1e30}`: {Path: "x", Offset: 1<<63 - 1, Mode: "b", All: true},
	} {
		var got params
		if err := s.Decode(schema.Parse([]byte(input)), &got); err != nil {
			t.Errorf("%s: %v", input, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", input, d)
		}
	}
}

// Invalid input is refused with a reason for each field (T-DISP-02, P9).
func TestDecodeNamesEachField(t *testing.T) {
	t.Parallel()
	s := schema.Of[params]()
	for input, want := range map[string]map[string]any{
		``: {"path": "is required"},
		`{"offset":"1","extra":2}`: {
			"path": "is required", "offset": "got string, want integer", "extra": "is not a parameter",
		},
		`{"path":1}`:                     {"path": "got number, want string"},
		`{"path":"x","offset":0}`:        {"offset": "minimum: got 0, want 1"},
		`{"path":"x","offset":1.5}`:      {"offset": "got number, want integer"},
		`{"path":"x","offset":null}`:     {"offset": "got null, want integer"},
		`{"path":"x","mode":"c"}`:        {"mode": "value must be one of 'a', 'b'"},
		`{"path":"x","env":{"A":1}}`:     {"env.A": "got number, want string"},
		`{"path":"x","globs":["a",{}]}`:  {"globs.1": "got object, want string"},
		`{"PATH":"x"}`:                   {"path": "is required", "PATH": "is not a parameter"},
		`[]`:                             {"(input)": "got array, want object"},
		`"path"`:                         {"(input)": "got string, want object"},
		`{"path":"x","Hidden":1}`:        {"Hidden": "is not a parameter"},
		`{"path":"x"} {"path":"y"}`:      nil,
		`{"path":"x"}}`:                  nil,
		`{"path":"x"}] and text`:         nil,
		`{"path":"x"`:                    nil,
		`{"path":"x","offset":1e999999}`: nil,
	} {
		var got params
		err := s.Decode(schema.Parse([]byte(input)), &got)
		if !errors.Is(err, fault.InvalidParams) {
			t.Errorf("%s: error = %v", input, err)
			continue
		}
		if want == nil {
			continue
		}
		if d := cmp.Diff(want, fault.From(err).Details["fields"]); d != "" {
			t.Errorf("%s: %s", input, d)
		}
		if !strings.HasSuffix(fault.From(err).Msg, ".") {
			t.Errorf("%s: %q is no sentence", input, fault.From(err).Msg)
		}
	}
}

// The report of very many errors has a limited length.
func TestDecodeTellsOnlySoMuch(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `"name%d":1,`, i)
	}
	long := strings.Repeat("\u00e9", 100_000)
	for _, input := range []string{
		`{` + many.String() + `"path":"x"}`, `{"` + long + `":1,"path":"x"}`, `{"path":"x","env":{"` + long + `":1}}`,
	} {
		err := schema.Of[params]().Decode(schema.Parse([]byte(input)), new(params))
		f := fault.From(err)
		text, marshalled := json.Marshal(f.Details)
		if !errors.Is(err, fault.InvalidParams) || marshalled != nil || len(f.Msg) > 8000 || len(text) > 8000 {
			t.Errorf("%.40s: %.100s with %d bytes of message and %d of details", input, f.Msg, len(f.Msg), len(text))
		}
	}
}

// Decoding any text returns parameters or invalid_params. The schema for the model accepts the same input as the reader
// of the parameters (T-TOOLS-02).
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"path":"x"}`, `{"path":"x","offset":3.0}`, `{"path":1e400}`, `[`, "", `{"path":"x","env":{"":""}}`,
		`{"path":"x","offset":1e999999999}`, `{"path":"\ud800"}`, `{"path":"x","path":2}`, strings.Repeat("[", 5000),
	} {
		f.Add(seed)
	}
	s := schema.Of[params]()
	f.Fuzz(func(t *testing.T, input string) {
		var p params
		err := s.Decode(schema.Parse([]byte(input)), &p)
		if err != nil && !errors.Is(err, fault.InvalidParams) {
			t.Fatalf("error = %v", err)
		}
		if err == nil && p.Offset < 1 {
			t.Fatalf("offset %d got past the schema", p.Offset)
		}
	})
}

// Input may nest 100 levels deep. Deeper input gets an error with the limit.
func TestDecodeBoundsTheDepth(t *testing.T) {
	t.Parallel()
	s, err := schema.New(map[string]any{"type": "object"})
	if err != nil {
		t.Fatal(err)
	}
	nested := func(n int) []byte { return []byte(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)) }
	var got map[string]any
	if err := s.Decode(schema.Parse(nested(100)), &got); err != nil {
		t.Errorf("got %v for 100 levels, want none", err)
	}
	for _, n := range []int{101, 3331, 9999, 10001, 1 << 20} {
		err := s.Decode(schema.Parse(nested(n)), &got)
		if !errors.Is(err, fault.InvalidParams) || !strings.Contains(err.Error(), "100") {
			t.Errorf("got %v for %d levels, want invalid_params that names the limit", err, n)
		}
	}
}

// Decoding leaves the parsed value of the input as it is, also if defaults are added.
func TestDecodeLeavesTheInput(t *testing.T) {
	t.Parallel()
	s, err := schema.New(map[string]any{
		"type": "object", "properties": map[string]any{"a": map[string]any{}, "b": map[string]any{"default": "x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	input := schema.Parse([]byte(`{"a":1}`))
	var got map[string]any
	if err := s.Decode(input, &got); err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"a": int64(1), "b": "x"}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := map[string]any{"a": int64(1)}; !cmp.Equal(input.Value, any(want)) {
		t.Errorf("the input became %v", input.Value)
	}
}
