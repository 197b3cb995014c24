package wirejson_test

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// A message is encoded as the API documents it: proto names, numbers as numbers, enums in lower case, null for unset
// values, lists and maps always present, marked fields only if they are not empty.
func TestMarshal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		give proto.Message
		want string
	}{
		"nil":           {nil, `null`},
		"nil of a type": {(*apiv1.Session)(nil), `null`},
		"null, lists and totals": {
			&apiv1.GetSessionResponse{Session: &apiv1.Session{
				Id: "01S", ProjectId: "p", Name: proto.String("a"), State: apiv1.SessionState_SESSION_STATE_IDLE,
				CreatedAt: 1716300000000, Totals: &apiv1.SessionTotals{TokensIn: 1 << 60},
			}},
			`{"session":{"id":"01S","project_id":"p","name":"a","label":null,"state":"idle","blocked_reason":null,` +
				`"created_at":1716300000000,"updated_at":0,"ended_at":null,"message_count":0,"model_override":null,` +
				`"max_steps_override":null,"max_output_tokens_override":null,"current_run":null,"live_subagents":[],` +
				`"totals":{"tokens_in":1152921504606846976,"tokens_out":0,"cost_usd":null},"cage_status":null,` +
				`"issue_number":null,"budget":null}}`,
		},
		"left out while empty": {
			&apiv1.PostMessageResponse{Id: "m", SessionId: "s", AcceptedAt: 1, RunId: "r"},
			`{"id":"m","session_id":"s","accepted_at":1,"run_id":"r"}`,
		},
		"there when set": {
			&apiv1.PostMessageResponse{Queued: true, Reason: "per_project", RunningCount: 4, Limit: 4},
			`{"id":"","session_id":"","accepted_at":0,"run_id":"","queued":true,"reason":"per_project","running_count":4,` +
				`"limit":4}`,
		},
		"maps are sorted": {
			&apiv1.Welcome{SessionId: "s", ServerSeq: map[string]int64{"output": 2, "events": 1}},
			`{"session_id":"s","server_seq":{"events":1,"output":2}}`,
		},
		"an empty map is an object": {&apiv1.Welcome{}, `{"session_id":"","server_seq":{}}`},
		"an enum with underscores": {
			&commonv1.Error{Code: commonv1.ErrorCode_ERROR_CODE_NOT_FOUND, Message: "no"}, `{"code":"not_found","message":"no"}`,
		},
		"an enum value nobody knows": {&commonv1.Error{Code: 9999}, `{"code":"unspecified","message":""}`},
		"any JSON in a value": {
			must(structpb.NewValue(map[string]any{"b": []any{nil, true, 1.5, "x", map[string]any{}}, "a": 1e21, "<": "</&>"})),
			`{"<":"</&>","a":1e+21,"b":[null,true,1.5,"x",{}]}`,
		},
		"raw JSON": {
			&apiv1.MessageToolCall{Input: []byte(`{"b":9223372036854775807,"a":[]}`)},
			`{"message_id":"","id":"","name":"","input":{"b":9223372036854775807,"a":[]}}`,
		},
		"raw JSON that is absent": {&apiv1.MessageToolCall{}, `{"message_id":"","id":"","name":"","input":null}`},
		"raw JSON that is none": {
			&apiv1.MessageToolCall{Input: []byte("1},\xff")},
			`{"message_id":"","id":"","name":"","input":"1},` + "\uFFFD" + `"}`,
		},
		"raw JSON left out": {&apiv1.MessagePart{Type: "text"}, `{"type":"text"}`},
		"text": {
			&apiv1.MessageDelta{Delta: "a\"\\\n\r\t\x00\x1f\u2028é\xff😀\x80"},
			`{"message_id":"","delta":"a\"\\\n\r\t\u0000\u001f` + "\u2028é\uFFFD😀\uFFFD" + `","kind":""}`,
		},
		"bytes": {&sessionmanagerv1.GetAuthEpochResponse{Secret: []byte{0xfb, 0xff}}, `{"secret":"+/8="}`},
		"a member of a oneof": {
			&sessionmanagerv1.AttachEvent{Event: &sessionmanagerv1.AttachEvent_Attached{Attached: &sessionmanagerv1.Attached{}}},
			`{"attached":{"server_seq":{}}}`,
		},
		"no member of a oneof": {&sessionmanagerv1.AttachEvent{}, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wirejson.Marshal(c.give)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if !json.Valid(got) {
				t.Errorf("%s is not JSON", got)
			}
		})
	}
}

// A number that JSON does not allow is refused and leaves the earlier bytes unchanged.
func TestAppendRefusesNaN(t *testing.T) {
	t.Parallel()
	got, err := wirejson.AppendFrame([]byte("x"), "output", 1, "t", structpb.NewNumberValue(math.NaN()))
	if !errors.Is(err, fault.Internal) || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A frame has the four keys of the protocol.
func TestAppendFrame(t *testing.T) {
	t.Parallel()
	got, err := wirejson.AppendFrame(nil, "output", 7, "message.delta",
		&apiv1.MessageDelta{MessageId: "m", Delta: "hi", Kind: "text"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"channel":"output","seq":7,"type":"message.delta","payload":{"message_id":"m","delta":"hi","kind":"text"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A client's message is decoded with the required types; null and absent are distinguished where it matters.
func TestUnmarshal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		give string
		want proto.Message
	}{
		"unknown keys are ignored": {
			`{"content":"hi","x":{"a":[1,{"b":null}]},"x":1}`, &apiv1.PostMessageRequest{Content: proto.String("hi")},
		},
		"null is unset":      {`{"content":null,"max_steps_override":null}`, &apiv1.PostMessageRequest{}},
		"empty is not unset": {`{"content":""}`, &apiv1.PostMessageRequest{Content: proto.String("")}},
		"null and absent": {
			`{"label":null,"max_steps_override":3}`,
			&apiv1.UpdateSessionRequest{Label: structpb.NewNullValue(), MaxStepsOverride: structpb.NewNumberValue(3)},
		},
		"whole numbers in any spelling": {
			`{"resume_from_seq":{"a":1.0,"b":1e3,"c":-0,"d":9223372036854775807}}`,
			&apiv1.Hello{ResumeFromSeq: map[string]int64{"a": 1, "b": 1000, "c": 0, "d": math.MaxInt64}},
		},
		"any JSON": {
			`{"label":{"a":[1,"x",true,null,{}]}}`,
			&apiv1.UpdateSessionRequest{
				Label: must(structpb.NewValue(map[string]any{"a": []any{1, "x", true, nil, map[string]any{}}})),
			},
		},
		"an enum and bytes": {
			`{"code":"dsl_invalid","message":"m"}`, &commonv1.Error{
				Code: commonv1.ErrorCode_ERROR_CODE_DSL_INVALID, Message: "m",
			},
		},
		"white space": {" {\n} \t", &apiv1.Hello{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.want.ProtoReflect().New().Interface()
			if err := wirejson.Unmarshal([]byte(c.give), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// A value of the wrong type is refused with the path of the field (A-ERR-CODE-02), and malformed JSON as a bad
// request (A-ERR-CODE-01).
func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	post, update, hello := &apiv1.PostMessageRequest{}, &apiv1.UpdateSessionRequest{}, &apiv1.Hello{}
	for name, c := range map[string]struct {
		give string
		into proto.Message
		code fault.Code
		path string
		http int
	}{
		"nothing":          {``, post, fault.BadRequest, "", 0},
		"no JSON":          {`{"content"`, post, fault.BadRequest, "", 0},
		"two values":       {`{} {}`, post, fault.BadRequest, "", 0},
		"a trailing comma": {`{"content":"x",}`, post, fault.BadRequest, "", 0},
		"not UTF-8":        {"{\"content\":\"\xff\"}", post, fault.BadRequest, "", 0},
		"too deep": {
			`{"label":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, update, fault.BadRequest, "", 0,
		},
		"not an object":          {`[]`, post, fault.ValidationFailed, "", 0},
		"null":                   {`null`, post, fault.ValidationFailed, "", 0},
		"a number for a string":  {`{"content":1}`, post, fault.ValidationFailed, "content", 0},
		"an object for a string": {`{"content":{}}`, post, fault.ValidationFailed, "content", 0},
		"a string for a number":  {`{"max_steps_override":"3"}`, post, fault.ValidationFailed, "max_steps_override", 0},
		"a fraction":             {`{"max_steps_override":1.5}`, post, fault.ValidationFailed, "max_steps_override", 0},
		"past 32 bits": {
			`{"max_steps_override":2147483648}`, post, fault.ValidationFailed, "max_steps_override", 422,
		},
		"past 64 bits": {
			`{"resume_from_seq":{"output":9223372036854775808}}`, hello, fault.ValidationFailed, "resume_from_seq.output", 422,
		},
		"past every number": {
			`{"resume_from_seq":{"output":1e999999999}}`, hello, fault.ValidationFailed, "resume_from_seq.output", 422,
		},
		"a value past every number": {`{"label":[0,1e999]}`, update, fault.ValidationFailed, "label[1]", 422},
		"a key twice":               {`{"content":"a","content":"a"}`, post, fault.ValidationFailed, "content", 0},
		"a map key twice": {
			`{"resume_from_seq":{"a":1,"a":1}}`, hello, fault.ValidationFailed, "resume_from_seq.a", 0,
		},
		"a value's key twice": {`{"label":[{"a":1,"a":1}]}`, update, fault.ValidationFailed, "label[0].a", 0},
		"an array for a map":  {`{"resume_from_seq":[]}`, hello, fault.ValidationFailed, "resume_from_seq", 0},
		"null in a map": {
			`{"resume_from_seq":{"a":null}}`, hello, fault.ValidationFailed, "resume_from_seq.a", 0,
		},
		"an unknown enum value": {`{"code":"nope"}`, &commonv1.Error{}, fault.ValidationFailed, "code", 0},
		"not base64": {
			`{"secret":"*"}`, &sessionmanagerv1.GetAuthEpochResponse{}, fault.ValidationFailed, "secret", 0,
		},
		"two members of a oneof": {
			`{"attached":{},"ended":{}}`, &sessionmanagerv1.AttachEvent{}, fault.ValidationFailed, "ended", 0,
		},
		"a string for a boolean": {`{"confirm":"true"}`, &apiv1.EndSessionRequest{}, fault.ValidationFailed, "confirm", 0},
		"a string for a message": {`{"details":"x"}`, &commonv1.Error{}, fault.ValidationFailed, "details", 0},
		"a number in a list":     {`{"channels":["a",2]}`, &apiv1.Channels{}, fault.ValidationFailed, "channels[1]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := wirejson.Unmarshal([]byte(c.give), proto.Clone(c.into))
			if !errors.Is(err, c.code) {
				t.Fatalf("got %v, want %v", err, c.code)
			}
			f := fault.From(err)
			if f.HTTP != c.http {
				t.Errorf("HTTP status %d, want %d", f.HTTP, c.http)
			}
			if c.path != "" {
				if diff := cmp.Diff([]string{c.path}, f.Details["fields"]); diff != "" {
					t.Errorf("details.fields, want -, got +:\n%s", diff)
				}
			}
		})
	}
}

// Decoding takes time linear in the length of the JSON, not in the length of all its paths: only an error formats one.
func TestUnmarshalIsLinear(t *testing.T) { // not parallel: it counts the allocations of the process
	const many = 10_000
	long := strings.Repeat("k", 100<<10)
	data := []byte(`{"label":{"` + long + `":[` + strings.Repeat(`0,{"a":1},`, many/2) + `1e999]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := wirejson.Unmarshal(data, &apiv1.UpdateSessionRequest{})
	runtime.ReadMemStats(&after)
	if diff := cmp.Diff([]string{"label." + long + "[10000]"}, fault.From(err).Details["fields"]); diff != "" {
		t.Errorf("details.fields, want -, got +:\n%s", diff)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(100*len(data)) {
		t.Errorf("%d bytes of JSON took %d bytes to read; their paths have %d", len(data), got, many*len(long))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func BenchmarkAppendDelta(b *testing.B) {
	m := &apiv1.MessageDelta{
		MessageId: "01HXABCDEFGHJKMNPQRSTVWXYZ", Delta: "Found 3 releases, the last one of Tuesday.\n", Kind: "text",
	}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = wirejson.AppendFrame(buf[:0], "output", 12345, "message.delta", m)
	}
}

func BenchmarkUnmarshalPost(b *testing.B) {
	data := []byte(
		`{"content":"Scrape new releases and prep a deploy.","model_override":"claude:sonnet","max_steps_override":10}`,
	)
	b.ReportAllocs()
	for b.Loop() {
		if err := wirejson.Unmarshal(data, &apiv1.PostMessageRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}
