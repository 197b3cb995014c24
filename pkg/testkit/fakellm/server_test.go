package fakellm_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
)

var update = flag.Bool("update", false, "write the golden streams anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a request's body and returns the status and the answer.
func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(answer) + "!" + err.Error()
	}
	return resp.StatusCode, string(answer)
}

const tools = `[{"name":"file__read","input_schema":{"type":"object"}}]`

func anthropicBody(text string) string {
	return `{"model":"m","max_tokens":9,"stream":true,"tools":` + tools + `,"messages":[{"role":"user","content":` +
		fmt.Sprintf(
			"%q",
			text,
		) + `}]}`
}

func chatBody(text string) string {
	return fmt.Sprintf(
		`{"model":"m","stream":true,"stream_options":{"include_usage": true},"messages":[{"role":"user","content":%q}]}`,
		text,
	)
}

func responsesBody(text string) string {
	return fmt.Sprintf(`{"model":"m","stream":true,"input":[{"role":"user","content":%q}]}`, text)
}

const googlePath = "/v1beta/models/m:streamGenerateContent?alt=sse"

func googleBody(text string) string {
	return fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%q}]}]}`, text)
}

// An answer in each format equals, byte for byte, the providers' documentation.
func TestFormats(t *testing.T) {
	step := fakellm.Step{
		fakellm.Usage(llm.Usage{Input: 10, Output: 20, Reasoning: 5, CacheRead: 30, CacheWrite: 40}),
		fakellm.Think("Let me <see>."), fakellm.Redacted("hidden"), fakellm.Ping(), fakellm.Say("Hello, wide\nworld ü"),
		fakellm.ToolID("call_1", "file.read", `{"path": "a.txt", "limit": 10}`), fakellm.ToolID("call_2", "shell.bash", ""),
	}
	for name, c := range map[string]struct{ path, body string }{
		"anthropic": {"/v1/messages", anthropicBody("hi")}, "chat": {"/v1/chat/completions", chatBody("hi")},
		"responses": {"/v1/responses", responsesBody("hi")},
		"google":    {googlePath, googleBody("hi")},
	} {
		srv := fakellm.Start(t)
		srv.Script(fakellm.Steps(step))
		_, got := post(t, srv.URL+c.path, c.body)
		golden := filepath.Join("testdata", name+".sse")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Deltas of a load have the same bytes whether they were built for this answer or cached.
func TestDeltas(t *testing.T) {
	srv := fakellm.Start(t)
	srv.Handle(func(*fakellm.Request) fakellm.Step {
		return fakellm.Step{fakellm.Think("first"), fakellm.Deltas(37, 6, 0), fakellm.Say("last")}
	})
	for path, body := range map[string]string{
		"/v1/messages": anthropicBody("hi"), "/v1/chat/completions": chatBody("hi"), "/v1/responses": responsesBody("hi"),
		googlePath: googleBody("hi"),
	} {
		_, first := post(t, srv.URL+path, body)
		_, second := post(t, srv.URL+path, body)
		if first != second {
			t.Errorf("%s: %s", path, cmp.Diff(first, second))
		}
		if n := strings.Count(first, `"00036 "`); n != 1 {
			t.Errorf("%s: the last delta comes %d times", path, n)
		}
	}
	if got := fakellm.DeltaText(12, 3); got != "00 01 02 03 04 05 06 07 08 09 10 11 " {
		t.Errorf("%q", got)
	}
}

// strict returns a server and a function that returns its complaints.
func strict(t *testing.T) (*fakellm.Server, func() string) {
	var mu sync.Mutex
	var said []string
	srv := fakellm.New(func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf(format, args...))
	})
	h := httptest.NewServer(srv)
	srv.URL = h.URL
	t.Cleanup(func() {
		srv.Close()
		h.Close()
	})
	return srv, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(said, "\n")
	}
}

// An unexpected request is refused and fails the test with the expectation and the request.
func TestUnexpected(t *testing.T) {
	for name, c := range map[string]struct {
		step fakellm.Step
		body string
		want []string
	}{
		"no step":      {nil, anthropicBody("hello"), []string{"no step 1", `"Text":"hello"`}},
		"other text":   {fakellm.Step{fakellm.GotUser("bye")}, anthropicBody("hello"), []string{"-bye\n+hello\n"}},
		"pattern":      {fakellm.Step{fakellm.GotUser("/^l+/")}, anthropicBody("hello"), []string{"-/^l+/\n+hello\n"}},
		"other system": {fakellm.Step{fakellm.GotSystem("be")}, anthropicBody("hello"), []string{`expected system "be"`}},
		"no tool": {
			fakellm.Step{fakellm.GotTool("shell.bash")}, anthropicBody("hello"), []string{"-shell.bash\n+file.read\n"},
		},
		"no result": {
			fakellm.Step{fakellm.GotError("gone")}, anthropicBody("hello"), []string{`expected tool_result is_error "gone"`},
		},
		"other model": {fakellm.Step{fakellm.GotModel("n")}, anthropicBody("hello"), []string{"-n\n+m\n"}},
		"other bound": {fakellm.Step{fakellm.GotMaxTokens(7)}, anthropicBody("hello"), []string{"-7\n+9\n"}},
		"no JSON":     {fakellm.Step{fakellm.Say("x")}, "{", []string{"does not parse"}},
		"empty text":  {fakellm.Step{fakellm.Say("x")}, anthropicBody(" "), []string{"non-whitespace text"}},
		"no bound": {
			fakellm.Step{fakellm.Say("x")},
			`{"messages":[{"role":"user","content":"a"}]}`,
			[]string{"max_tokens: Field required"},
		},
		"no result for a call": {
			fakellm.Step{fakellm.Say("x")},
			`{"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use",` +
				`"id":"x","name":"a__b","input":{}}]},{"role":"user","content":"b"}]}`,
			[]string{"`tool_use` ids were found without `tool_result`"},
		},
		"dotted name": {
			fakellm.Step{fakellm.Say("x")},
			`{"max_tokens":1,"tools":[{"name":"a.b","input_schema":{"type":"object"}}],"messages":[{"role":"user",` +
				`"content":"a"}]}`,
			[]string{"should match pattern"},
		},
	} {
		srv, said := strict(t)
		if c.step != nil {
			srv.Script(fakellm.Steps(c.step))
		}
		status, answer := post(t, srv.URL+"/v1/messages", c.body)
		if status != 400 || !strings.Contains(answer, `"type":"error"`) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		for _, want := range c.want {
			if !strings.Contains(said(), want) {
				t.Errorf("%s: %q is missing in %s", name, want, said())
			}
		}
	}
	srv, said := strict(t)
	if status, _ := post(t, srv.URL+"/v1/embeddings", "{}"); status != 400 ||
		!strings.Contains(said(), "nothing is served at POST /v1/embeddings") {
		t.Errorf("%d %s", status, said())
	}
	srv.Handle(func(*fakellm.Request) fakellm.Step { return nil })
	if status, _ := post(t, srv.URL+"/v1/messages", anthropicBody("x")); status != 400 ||
		!strings.Contains(said(), "the function expects no such request") {
		t.Errorf("%d %s", status, said())
	}
}

// Requests get the most specific script: marker, model, function, each conversation, common.
func TestWhichScript(t *testing.T) {
	srv := fakellm.Start(t)
	say := func(s string) []fakellm.Step { return fakellm.Steps(fakellm.Step{fakellm.Say(s)}) }
	ask := func(text, model string) string {
		_, answer := post(t, srv.URL+"/v1/messages", strings.Replace(anthropicBody(text), `"m"`, `"`+model+`"`, 1))
		for _, s := range []string{"common", "each", "func", "model", "marker"} {
			if strings.Contains(answer, `"text":"`+s+`"`) {
				return s
			}
		}
		return answer
	}
	srv.Script(say("common"))
	srv.ScriptModel("special", say("model"))
	srv.ScriptFor("[s7]", say("marker"))
	if got := ask("[s7] hi", "special") + ask("hi", "special") + ask("hi", "m"); got != "markermodelcommon" {
		t.Error(got)
	}
	srv.ScriptEach(append(say("each"), fakellm.Step{fakellm.Say("later")}))
	if got := ask("hi", "m") + ask("hi", "m"); got != "eacheach" {
		t.Error(got)
	}
	srv.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("func")} })
	if got := ask("hi", "m"); got != "func" {
		t.Error(got)
	}
	if n := srv.Unplayed(); n != 0 {
		t.Errorf("%d steps are left", n)
	}
}

// A request is parsed equally in every format.
func TestUnderstood(t *testing.T) {
	srv := fakellm.Start(t)
	srv.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("ok")} })
	post(
		t,
		srv.URL+"/v1/messages",
		`{"model":"m","max_tokens":7,"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],
		"tools":[{"name":"file__read","description":"d","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"q"},
		{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"x","name":"file__read","input":{"p":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"{\"error\":1}"}],"is_error":true},{"type":"text","text":"more"}]}]}`,
	)
	post(
		t,
		srv.URL+"/v1/chat/completions",
		`{"model":"m","max_tokens":7,"tools":[{"type":"function","function":{"name":"file__read","description":"d","parameters":{"type":"object"}}}],
		"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"q"},{"role":"assistant","content":"t","tool_calls":[{"id":"x","type":"function","function":{"name":"file__read","arguments":"{\"p\":1}"}}]},
		{"role":"tool","tool_call_id":"x","content":"{\"error\":1}"},{"role":"user","content":[{"type":"text","text":"more"}]}]}`,
	)
	post(
		t,
		srv.URL+"/v1/responses",
		`{"model":"m","max_output_tokens":7,"instructions":"a\n\nb","tools":[{"type":"function","name":"file__read","description":"d","parameters":{"type":"object"}}],
		"input":[{"role":"user","content":"q"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"t"}]},{"type":"function_call","call_id":"x","name":"file__read","arguments":"{\"p\":1}"},
		{"type":"function_call_output","call_id":"x","output":"{\"error\":1}"},{"role":"user","content":"more"}]}`,
	)
	post(t, srv.URL+googlePath, `{"systemInstruction":{"parts":[{"text":"a"},{"text":"b"}]},
		"generationConfig":{"maxOutputTokens":7},
		"tools":[{"functionDeclarations":[
			{"name":"file__read","description":"d","parametersJsonSchema":{"type":"object"}}]}],
		"contents":[{"role":"user","parts":[{"text":"q"}]},
		{"role":"model","parts":[{"text":"t"},{"functionCall":{"id":"x","name":"file__read","args":{"p":1}}}]},
		{"role":"user","parts":[
			{"functionResponse":{"id":"x","name":"file__read","response":{"error":"{\"error\":1}"}}}]},
		{"role":"user","parts":[{"text":"more"}]}]}`)
	want := []llm.Message{
		{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: "q"}}}},
		{
			Role: llm.RoleAssistant,
			Blocks: []llm.Block{
				{Text: &llm.Text{Text: "t"}},
				{Call: &llm.ToolCall{ID: "x", Name: "file.read", Input: `{"p":1}`}},
			},
		},
		{
			Role: llm.RoleTool,
			Blocks: []llm.Block{
				{Result: &llm.ToolResult{CallID: "x", Name: "file.read", Content: `{"error":1}`, IsError: true}},
			},
		},
		{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: "more"}}}},
	}
	for _, r := range srv.Requests() {
		if diff := cmp.Diff(want, r.Messages); diff != "" {
			t.Errorf("%s: %s", r.Format, diff)
		}
		if r.System != "a\n\nb" || r.Model != "m" || r.MaxTokens != 7 || r.Turns() != 1 || r.Conversation() != "q" ||
			r.LastText() != "more" ||
			len(r.Results()) != 1 {
			t.Errorf("%s: %+v", r.Format, r)
		}
		if len(r.Tools) != 1 || r.Tools[0].Name != "file.read" || r.WireTools[0] != "file__read" ||
			r.Tools[0].Description != "d" {
			t.Errorf("%s: %+v", r.Format, r.Tools)
		}
	}
}

// A stream is cut at the given byte, cleanly or not.
func TestCut(t *testing.T) {
	srv := fakellm.Start(t)
	step := fakellm.Step{fakellm.Say("some words to cut")}
	srv.Script(fakellm.Steps(step))
	_, whole := post(t, srv.URL+"/v1/messages", anthropicBody("hi"))
	for _, n := range []int{0, 1, 100, len(whole) - 1} {
		srv.Script(
			fakellm.Steps(append(fakellm.Step{fakellm.Cut(n)}, step...), append(fakellm.Step{fakellm.End(n)}, step...)),
		)
		if _, got := post(t, srv.URL+"/v1/messages", anthropicBody("hi")); got != whole[:n]+"!unexpected EOF" {
			t.Errorf("cut at %d: %q", n, got)
		}
		if _, got := post(t, srv.URL+"/v1/messages", anthropicBody("hi")); got != whole[:n] {
			t.Errorf("ended at %d: %q", n, got)
		}
	}
}

// A gate blocks an answer until it is opened, reports when it was reached, and times are recorded.
func TestGate(t *testing.T) {
	srv := fakellm.Start(t)
	gate := fakellm.NewGate()
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("before"), fakellm.Wait(gate), fakellm.Say("after")}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	answered := make(chan string)
	go func() {
		_, answer := post(t, srv.URL+"/v1/messages", anthropicBody("hi"))
		answered <- answer
	}()
	r, err := srv.WaitRequest(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Reached(ctx); err != nil {
		t.Fatal(err)
	}
	if !r.Finished.IsZero() || r.Arrived.IsZero() {
		t.Errorf("%v %v", r.Arrived, r.Finished)
	}
	gate.Open()
	gate.Open()
	if answer := <-answered; !strings.Contains(answer, "after") {
		t.Error(answer)
	}
	if r, err = srv.WaitFinished(ctx, 1); err != nil || r.Finished.Before(r.Arrived) {
		t.Error(r.Finished, err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := srv.WaitRequest(ended, 2); err == nil {
		t.Error("a request that never came was waited for")
	}
	if err := fakellm.NewGate().Reached(ended); err == nil {
		t.Error("a gate was reached by nobody")
	}
}

// A script's text form has all features of the Go form, and its errors have file and line.
func TestScriptText(t *testing.T) {
	srv, said := strict(t)
	err := srv.ParseScript(`
What stands before the first section is a comment.
-- llm/1 --
# a comment
got user fix
think hm
say "two\nlines"
tool file.read {"path": "a b"}
usage input=1 output=2 reasoning=1 cache_read=3 cache_write=4
-- notes.txt --
not ours
-- llm/2 --
got tool_result is_error file_not_found
status 429 retry-after: 2; x-other: b; Slow down; please
-- llm/* --
say rest
stop length
-- llm/[s1]/1 --
deltas 3 4
ping
redacted xyz
delay 1ms
pace 1ms
end 100000
-- llm/[s1]/* --
gate open
error overloaded_error Too busy
`)
	if err != nil {
		t.Fatal(err)
	}
	_, answer := post(t, srv.URL+"/v1/messages", anthropicBody("please fix"))
	for _, want := range []string{
		`"thinking":"hm"`, `"text":"\nlines"`, `"name":"file__read"`, `"thinking_tokens":1`, `"cache_read_input_tokens":3`,
	} {
		if !strings.Contains(answer, want) {
			t.Errorf("%s is missing in %s", want, answer)
		}
	}
	body := `{"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"a","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","is_error":true,"content":"file_not_found: a"}]}]}`
	if status, answer := post(t, srv.URL+"/v1/messages", body); status != 429 ||
		!strings.Contains(answer, `"message":"Slow down; please"`) {
		t.Errorf("%d %s", status, answer)
	}
	for range 2 {
		if _, answer := post(t, srv.URL+"/v1/messages", anthropicBody("on")); !strings.Contains(answer, `"max_tokens"`) {
			t.Error(answer)
		}
	}
	if _, answer := post(t, srv.URL+"/v1/messages", anthropicBody("[s1] x")); !strings.Contains(answer, "002 ") ||
		!strings.Contains(answer, "xyz") {
		t.Error(answer)
	}
	srv.Gate("open").Open()
	if _, answer := post(t, srv.URL+"/v1/messages", anthropicBody("[s1] x")); !strings.Contains(answer, "Too busy") {
		t.Error(answer)
	}
	if said() != "" {
		t.Error(said())
	}
	for text, want := range map[string]string{
		"-- llm/1 --\nsay a\nshout b": `llm/1:2: unknown verb "shout"`,
		"-- llm/2 --\nsay a":          "step 1 is missing",
		"-- llm/1 --\nsay \"a":        "llm/1:1: bad quoted text",
		"-- llm/1 --\nusage in=1":     `bad usage "in=1"`,
		"-- llm/1 --\nusage input=x":  "bad usage",
		"-- llm/1 --\ndelay soon":     "llm/1:1:",
		"-- llm/1 --\ncut x":          "llm/1:1:",
		"-- llm/1 --\nstatus no":      `bad status "no"`,
		"-- llm/1 --\ndeltas 1":       "deltas needs",
		"-- llm/1 --\ndeltas 1 1":     "bad deltas",
		"-- llm/1 --\ngot luck":       `unknown expectation "luck"`,
		"-- llm/1 --\ngot user \"x":   "bad quoted text",
		"-- llm/[a]/3 --\nsay x":      `script "[a]": step`,
	} {
		if err := fakellm.New(t.Errorf).ParseScript(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A folder with an unpacked archive gives the same script.
func TestReadFiles(t *testing.T) {
	dir := fstest.MapFS{
		"llm/1":      {Data: []byte("say a")},
		"llm/each/1": {Data: []byte("say b")},
		"other":      {Data: []byte("x")},
	}
	files, err := fakellm.ReadFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []fakellm.File{{Name: "llm/1", Text: "say a"}, {Name: "llm/each/1", Text: "say b"}}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
}

// Another process reads the times of requests, sets scripts and opens gates.
func TestControl(t *testing.T) {
	srv := fakellm.Start(t)
	if status, answer := post(t, srv.URL+"/_fakellm/script", "-- llm/each/1 --\ngate go\nsay ok\n"); status != 200 {
		t.Fatal(status, answer)
	}
	if status, _ := post(t, srv.URL+"/_fakellm/script", "-- llm/1 --\nbad\n"); status != 400 {
		t.Error(status)
	}
	post(t, srv.URL+"/_fakellm/script", "-- llm/each/1 --\ngate go\nsay ok\n")
	post(t, srv.URL+"/_fakellm/gate/go", "")
	srv.Keep(2)
	for i := range 3 {
		post(t, srv.URL+"/v1/chat/completions", chatBody(fmt.Sprint("conversation ", i)))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/_fakellm/requests", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var timings []fakellm.Timing
	if err := json.NewDecoder(resp.Body).Decode(&timings); err != nil {
		t.Fatal(err)
	}
	if len(timings) != 2 || timings[1].N != 3 || timings[1].Conversation != "conversation 2" ||
		timings[1].Finished <= timings[1].Arrived {
		t.Errorf("%+v", timings)
	}
}
