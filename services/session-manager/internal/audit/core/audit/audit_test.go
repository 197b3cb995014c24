package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

// memory is a store that remembers its last call. Methods that no test here calls are missing.
type memory struct {
	audit.Store
	records []audit.Record
	query   audit.Query
	answer  []audit.Record
	more    bool
}

func (m *memory) Record(_ context.Context, records []audit.Record) error {
	m.records = append(m.records, records...)
	return nil
}

func (m *memory) Query(_ context.Context, q audit.Query) ([]audit.Record, bool, error) {
	m.query = q
	return m.answer, m.more, nil
}

// A record made for a request has the request's operator and time.
func TestNew(t *testing.T) {
	ctx := ident.WithCaller(t.Context(), ident.Caller{UserID: "ada", RequestID: "r1"})
	r := audit.New(ctx, "project.loaded", map[string]any{"path": "/p"})
	if r.UserID != "ada" || r.RequestID != "r1" || !ident.Valid(r.ID) || r.TS == 0 || r.EventType != "project.loaded" {
		t.Errorf("record = %+v", r)
	}
}

// A record with any texts can be stored.
func TestClean(t *testing.T) {
	r := audit.Record{EventType: "a\x00b", SessionID: "\xff", RequestID: strings.Repeat("ä", 1000)}.Clean()
	if r.EventType != "a\uFFFDb" || r.SessionID != "\uFFFD" || len(r.RequestID) > 520 || !utf8.ValidString(r.RequestID) {
		t.Errorf("clean = %+v", r)
	}
	if !ident.Valid(r.ID) || r.TS == 0 {
		t.Errorf("id %q, ts %d", r.ID, r.TS)
	}
}

// A record without a type and too many records are refused; an empty list is valid.
func TestRecordRefuses(t *testing.T) {
	m := &memory{}
	s := audit.NewService(m, false)
	for _, records := range [][]audit.Record{{{EventType: "a"}, {}}, make([]audit.Record, 1001)} {
		if err := s.Record(t.Context(), records); !errors.Is(err, fault.ValidationFailed) {
			t.Errorf("%d records: %v", len(records), err)
		}
	}
	if err := s.Record(t.Context(), nil); err != nil || len(m.records) != 0 {
		t.Errorf("nothing: %v, stored %d", err, len(m.records))
	}
	if err := s.Record(t.Context(), []audit.Record{{EventType: "auth.login"}}); err != nil || len(m.records) != 1 {
		t.Errorf("one: %v, stored %d", err, len(m.records))
	}
}

// A query's parameters reach the store unchanged. A-AUDIT-01.
func TestQuery(t *testing.T) {
	m := &memory{answer: []audit.Record{{ID: "c", TS: 3}, {ID: "b", TS: 2}}, more: true}
	s := audit.NewService(m, false)
	f := audit.Filter{Since: 1, Until: 9, ProjectID: "p", SessionID: "s", EventType: " auth.*, prompt.edit ,,"}
	first, err := s.Query(t.Context(), "ada", f, 2, "")
	if err != nil || len(first.Items) != 2 || !first.HasMore() {
		t.Fatalf("first page = %+v, %v", first, err)
	}
	want := audit.Query{
		Owner: "ada", Since: 1, Until: 9, ProjectID: "p", SessionID: "s", Types: []string{"auth.*", "prompt.edit"}, Limit: 2,
	}
	if d := cmp.Diff(want, m.query); d != "" {
		t.Error(d)
	}
	m.answer, m.more = []audit.Record{{ID: "a", TS: 1}}, false
	last, err := s.Query(t.Context(), "ada", f, 2, first.Next)
	if err != nil || last.HasMore() || m.query.After.N != 2 || m.query.After.S != "b" {
		t.Errorf("last page = %+v after %+v, %v", last, m.query.After, err)
	}
}

// An invalid parameter is refused with its name.
func TestQueryRefuses(t *testing.T) {
	s := audit.NewService(&memory{}, false)
	for field, f := range map[string]audit.Filter{
		"since": {Since: -1}, "until": {Until: -1}, "project_id": {ProjectID: "a\x00"}, "session": {SessionID: "\xff"},
		"event_type": {EventType: strings.Repeat("a,", 51)},
	} {
		_, err := s.Query(t.Context(), "ada", f, 0, "")
		if !errors.Is(err, fault.ValidationFailed) || !cmp.Equal(fault.From(err).Details["fields"], any([]string{field})) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := s.Query(t.Context(), "ada", audit.Filter{
		EventType: strings.Repeat("a", check.MaxID+1),
	}, 0, ""); !errors.Is(err, fault.ValidationFailed) {
		t.Errorf("a long type: %v", err)
	}
	if _, err := s.Query(t.Context(), "ada", audit.Filter{}, 0, "garbage"); !errors.Is(err, fault.ValidationFailed) {
		t.Errorf("a foreign cursor: %v", err)
	}
}

// A payload of ordinary values is unchanged after it is stored and read.
func TestEncode(t *testing.T) {
	payload := map[string]any{
		"text": "a \"quoted\" \\ line\n\r\t\x01 ünï😀", "int": 7, "big": int64(1) << 60, "small": int32(-3), "float": 0.25,
		"exp": 1e300,
		"nil": nil, "yes": true, "list": []any{"a", 1, map[string]any{}}, "names": []string{"x", "y"},
		"raw": json.RawMessage(`{"n":12345678901234567890,"s":"\u00e4"}`), "struct": struct {
			A int `json:"a"`
		}{3},
	}
	got := audit.Encode(payload, audit.MaxPayload)
	want, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(w, g); d != "" {
		t.Error(d)
	}
	if !strings.Contains(string(got), `"big":1152921504606846976`) {
		t.Errorf("whole numbers must stay exact: %s", got)
	}
}

// Text that Postgres cannot store is replaced, and values that encoding/json cannot write are written as text.
func TestEncodeHostile(t *testing.T) {
	deep := map[string]any{}
	for range 20000 {
		deep = map[string]any{"d": deep}
	}
	payload := map[string]any{
		"nul\x00": "a\x00b", "bad": "\xff\xfe", "nan": math.NaN(), "inf": math.Inf(-1), "deep": deep,
		"huge": json.Number("1e999999"),
		"chan": make(chan int), "raw": json.RawMessage(`"\u0000\ud800"`), "broken": json.RawMessage(`{`),
	}
	got := audit.Encode(payload, audit.MaxPayload)
	if !json.Valid(got) || !utf8.Valid(got) || strings.Contains(string(got), `\u0000`) ||
		strings.Contains(string(got), `\ud8`) {
		t.Errorf("encoded to %.300s", got)
	}
	if string(audit.Encode(nil, 100)) != "{}" {
		t.Error("no payload is an empty object")
	}
}

// Of a payload that is too large, a part and the original size are stored.
func TestEncodeBounds(t *testing.T) {
	long := strings.Repeat("ä", 100_000)
	many := make([]any, 100_000)
	for name, payload := range map[string]map[string]any{
		"text": {"text": long, "kept": "yes"},
		"list": {"list": many, "kept": "yes"},
	} {
		got := audit.Encode(payload, 20_000)
		var back map[string]any
		if err := json.Unmarshal(got, &back); err != nil || len(got) > 20_000 {
			t.Fatalf("%s: %d bytes, %v", name, len(got), err)
		}
		if back["kept"] != "yes" || back["_truncated"].(float64) < 100_000 {
			t.Errorf("%s: kept %v, was %v", name, back["kept"], back["_truncated"])
		}
	}
	if got := audit.Encode(map[string]any{"n": make([]int, 300_000)}, audit.MaxPayload); len(got) > 50_000 {
		t.Errorf("too many values take %d bytes", len(got))
	}
	keys := map[string]any{}
	for range 1000 {
		keys[ident.New()] = strings.Repeat("x", 100)
	}
	if got := audit.Encode(keys, 50); string(got) == "" || !json.Valid(got) || len(got) > 50 {
		t.Errorf("nothing fits: %s", got)
	}
}

// For any text in a payload, the result is valid JSON that Postgres accepts.
func FuzzEncode(f *testing.F) {
	f.Add("a\x00b", 10)
	f.Add("\xf0\x9f\x98", 40)
	f.Add(strings.Repeat("😀", 30), 60)
	f.Fuzz(func(t *testing.T, s string, max int) {
		got := audit.Encode(map[string]any{s: s, "l": []string{s}}, max)
		if !json.Valid(got) || !utf8.Valid(got) || strings.Contains(string(got), `\u0000`) {
			t.Fatalf("%q encoded to %q", s, got)
		}
	})
}
