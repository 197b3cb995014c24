package session

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A session is written as a document: calls and results are in fences that their text cannot close.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &markdownWriter{w: &b}
	if err := w.session(json.RawMessage(`{"id":"S1","project_id":"demo","name":"Mend\nit","state":"idle","created_at":0,
		"totals":{"tokens_in":7,"tokens_out":3,"cost_usd":0.25}}`)); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{
		`{"role":"user","content":"Mend it.","created_at":1000}`,
		`{"role":"assistant","created_at":2000,"metadata":{"model":"m1","error_message":"It broke off."},"parts":[
			{"type":"thinking","text":"Let me\nsee."},{"type":"text","text":"I look."},
			{"type":"tool_call","id":"c1","name":"file.read","input":{"path":"a \u0026\\u0026"}},
			{"type":"tool_result","tool_call_id":"c1","name":"file.read","output":"a\n` + "```" + `\nb","is_error":true}]}`,
		`{"role":"subagent","subagent_invocation_id":"I1","content":"Done.","created_at":3000,"superseded":true}`,
	} {
		if err := w.message(json.RawMessage(raw)); err != nil {
			t.Fatal(err)
		}
	}
	want := "# Mend it\n\n- session: S1\n- project: demo\n- created: 1970-01-01T00:00:00Z\n- state: idle\n" +
		"- tokens: 7 in, 3 out\n" +
		"- cost: $0.2500\n\n## User, 1970-01-01T00:00:01Z\n\nMend it.\n" +
		"\n## Assistant (m1), 1970-01-01T00:00:02Z\n\n> Let me\n> see.\n" +
		"\nI look.\n\n**Call of file.read**\n\n```json\n{\n  \"path\": \"a &\\\\u0026\"\n}\n```\n" +
		"\n**Failure of file.read**\n\n````\na\n```\nb\n````\n\n**Failed:** It broke off.\n" +
		"\n## Subagent I1, 1970-01-01T00:00:03Z\n\n_Superseded: it was taken back._\n\nDone.\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// A result follows its call, and a message to a run at work follows the step after which the agent read it. Such a
// message is stored before that of its run. Messages to a run without a message of its own come last.
func TestMarkdownOfASteeredRun(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &markdownWriter{w: &b}
	for _, raw := range []string{
		`{"role":"operator","content":"Be quick.","created_at":1000,"run_id":"R1","after_step":1}`,
		`{"role":"subagent","subagent_invocation_id":"I1","content":"Seen.","created_at":1500}`,
		`{"role":"primary","created_at":2000,"run_id":"R1","parts":[
			{"type":"text","text":"Two calls."},
			{"type":"tool_call","id":"c1","name":"a","input":{}},{"type":"tool_call","id":"c2","name":"b","input":{}},
			{"type":"tool_result","tool_call_id":"c1","name":"a","output":"1"},
			{"type":"tool_result","tool_call_id":"c2","name":"b","output":"2"},
			{"type":"text","text":"Done."}]}`,
		`{"role":"operator","content":"Stop.","created_at":3000,"run_id":"R2","after_step":1}`,
	} {
		if err := w.message(json.RawMessage(raw)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	call := func(name, output string) string {
		return "\n**Call of " + name + "**\n\n```json\n{}\n```\n\n**Result of " + name + "**\n\n```\n" + output + "\n```\n"
	}
	want := "\n## Subagent I1, 1970-01-01T00:00:01Z\n\nSeen.\n" +
		"\n## Primary, 1970-01-01T00:00:02Z\n\nTwo calls.\n" + call("a", "1") + call("b", "2") +
		"\n## Operator, 1970-01-01T00:00:01Z\n\nBe quick.\n\n## Primary goes on\n\nDone.\n" +
		"\n## Operator, 1970-01-01T00:00:03Z\n\nStop.\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}
