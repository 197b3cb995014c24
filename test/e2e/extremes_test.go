package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/client"
	"kaged.dev/test/e2e/kagedtest"
)

// The property is checked with a few cases; -extremes=500 -extremes.seed=N checks more.
var (
	extremes     = flag.Int("extremes", 6, "how many cases TestExtremesStayReadable tries")
	extremesSeed = flag.Int("extremes.seed", 0, "the first of their seeds")
)

// extreme has the values that a provider and a client write into every field they control. Texts of the provider are
// JSON in its spelling.
type extreme struct {
	// Driver is the wire format.
	Driver string
	// Counts are the fields of the usage, Text and Thinking the model's output; CallID, CallName and CallInput are its
	// call.
	Counts                                      [4]string
	Text, Thinking, CallID, CallName, CallInput string
	// Body is the message that the client posts, Label the session's label.
	Body, Label string
}

func nested(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

// anExtreme draws edge values and random values of each field.
func anExtreme() *rapid.Generator[extreme] {
	count := rapid.SampledFrom([]string{
		"0", "1", "-1", "999999999", "1000000000", "1000000001", "2147483648", "9007199254740993", "9223372036854775807",
		"-9223372036854775808",
		"1e15", "1e18", "1e30", "0.5", "null",
	})
	text := rapid.SampledFrom([]string{
		`""`, `"a"`, `"\u0000"`, `"\ud800"`, `"\ud800\u0000\udfff"`, "\"\xff\xc0\x80\"", `"\u202e\u2066\u200b\ufeff\u2028"`,
		`"` + strings.Repeat("ö", 200<<10) + `"`,
		`"` + strings.Repeat(`\u0001`, 64<<10) + `"`, `"` + strings.Repeat("x", 256<<10-1) + `"`,
		`"` + strings.Repeat("x", 256<<10+1) + `"`,
	})
	name := rapid.SampledFrom([]string{
		`"shell.bash"`, `"shell_bash"`, `"file.read"`, `"nothing"`, `""`, `"\u0000"`, "\"\xff\"",
		`"` + strings.Repeat("n", 255) + `"`, `"` + strings.Repeat("n", 257) + `"`,
	})
	id := rapid.SampledFrom([]string{`""`, `"c"`, `"\u0000"`, "\"\xff\"", `"` + strings.Repeat("i", 257) + `"`, `"\"}{"`})
	input := rapid.SampledFrom([]string{
		``, `{}`, `null`, `[]`, `{`, `{"a":1,"a":2}`, `{"path":"\u0000"}`, `{"path":"a\ud800"}`,
		`{"command":"true","timeout_ms":9223372036854775807}`,
		`{"command":"printf '\\000\\377'"}`, `{"command":"true","env":` + nested(98) + `}`,
		`{"command":"true","env":` + nested(99) + `}`,
		`{"command":"true","env":` + nested(100) + `}`, nested(99), nested(100), nested(101), nested(3330), nested(3331),
		nested(9999), nested(10001),
		`{"n":1e400}`, `{"n":-0.0,"m":9223372036854775808}`, `{"a":"` + strings.Repeat("x", 300<<10) + `"}`,
		`{"path":"` + strings.Repeat("../", 2000) + `x"}`,
		"{\"path\":\"\xff\"}", `{"a":[` + strings.Repeat("0,", 100<<10) + `0]}`,
	})
	body := rapid.SampledFrom([]string{
		`{"content":"Go."}`, `{"content":"\u0001\u202e\ud800"}`, `{"content":"Go.","max_steps_override":2147483647}`,
		`{"content":"Go.","max_output_tokens_override":2147483647}`, `{"content":"` + strings.Repeat("x", 1<<20-100) + `"}`,
	})
	label := rapid.SampledFrom([]string{
		`null`, `""`, `"\u0000"`, `"\ud800"`, "\"\xff\"", `1`, nested(98), nested(101), nested(9999),
		`"` + strings.Repeat("l", 199) + `"`,
		`"` + strings.Repeat("l", 200) + `"`, `"` + strings.Repeat("l", 201) + `"`, `"` + strings.Repeat("ö", 200) + `"`,
	})
	return rapid.Custom(func(t *rapid.T) extreme {
		x := extreme{
			Driver: rapid.SampledFrom([]string{"openai-chat", "anthropic"}).Draw(t, "driver"),
			Text:   text.Draw(t, "text"), Thinking: text.Draw(t, "thinking"), CallID: id.Draw(t, "call id"),
			CallName:  name.Draw(t, "call name"),
			CallInput: input.Draw(t, "call input"), Body: body.Draw(t, "body"), Label: label.Draw(t, "label"),
		}
		for i := range x.Counts {
			x.Counts[i] = count.Draw(t, "count")
		}
		return x
	})
}

// known are cases that made a session unreadable before a fix: counts with a sum above 64 bits, and input that nests
// deeper than a message may.
func known() []extreme {
	quiet := extreme{
		Text: `"a"`, Thinking: `""`, CallID: `"c"`, CallName: `"shell.bash"`, Body: `{"content":"Go."}`, Label: `null`,
	}
	counts, deep := quiet, quiet
	counts.Driver, counts.CallInput = "anthropic", `{"command":"true"}`
	counts.Counts = [4]string{"9223372036854775807", "9223372036854775807", "9223372036854775807", "9223372036854775807"}
	deep.Driver, deep.CallInput = "openai-chat", `{"command":"true","env":`+nested(3331)+`}`
	deep.Counts = [4]string{"1e30", "1e30", "-1", "0"}
	return []extreme{counts, deep}
}

// hostile is a provider that plays the current case: first a call, then, after the result, a text.
type hostile struct {
	mu  sync.Mutex // guards the field below
	now extreme
}

func (h *hostile) set(x extreme) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = x
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	x := h.now
	h.mu.Unlock()
	request, _ := io.ReadAll(r.Body)
	again := bytes.Contains(request, []byte(`"role":"tool"`)) || bytes.Contains(request, []byte(`"tool_result"`))
	w.Header().Set("Content-Type", "text/event-stream")
	if strings.HasSuffix(r.URL.Path, "/messages") {
		x.anthropic(w, again)
	} else {
		x.chat(w, again)
	}
}

// quoteInput returns the call's input as a JSON string that keeps its bytes.
func (x extreme) quoteInput() string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(x.CallInput) + `"`
}

func (x extreme) chat(w io.Writer, again bool) {
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"reasoning_content\":%s}}]}\n\n", x.Thinking)
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", x.Text)
	finish := "stop"
	if !again {
		finish = "tool_calls"
		fmt.Fprintf(w,
			"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":%s,\"function\":{\"name\":%s,"+
				"\"arguments\":%s}}]}}]}\n\n",
			x.CallID, x.CallName, x.quoteInput())
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":%q}]}\n\n", finish)
	fmt.Fprintf(w,
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%s,\"completion_tokens\":%s,"+
			"\"prompt_tokens_details\":{\"cached_tokens\":%s},"+
			"\"completion_tokens_details\":{\"reasoning_tokens\":%s}}}\n\ndata: [DONE]\n\n", x.Counts[0], x.Counts[1],
		x.Counts[2], x.Counts[3])
}

func (x extreme) anthropic(w io.Writer, again bool) {
	event := func(format string, args ...any) { fmt.Fprintf(w, "data: "+format+"\n\n", args...) }
	event(`{"type":"message_start","message":{"usage":{"input_tokens":%s,"cache_read_input_tokens":%s}}}`, x.Counts[0],
		x.Counts[1])
	event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, x.Text)
	event(`{"type":"content_block_stop","index":0}`)
	stop := "end_turn"
	if !again {
		stop = "tool_use"
		event(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`,
			x.CallID, x.CallName)
		event(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%s}}`,
			x.quoteInput())
		event(`{"type":"content_block_stop","index":1}`)
	}
	event(
		`{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":%s,"cache_creation_input_tokens":%s}}`,
		stop, x.Counts[2], x.Counts[3],
	)
	event(`{"type":"message_stop"}`)
}

// For all values in the fields that a provider, a tool and a client control, no answer is a 500, and every route and
// the replay return the session and others in JSON that any client can read, even after a kill and a restart.
func TestExtremesStayReadable(t *testing.T) {
	t.Parallel()
	provider := &hostile{}
	srv := httptest.NewServer(provider)
	defer srv.Close()
	config := fmt.Sprintf("[models]\nsmart-generalist = \"openai-chat:claude-sonnet-4-5\"\n[providers.openai-chat]\n"+
		"driver = \"openai-chat\"\nbase_url = \"%s/v1\"\n"+
		"api_key = \"k\"\n[providers.anthropic]\ndriver = \"anthropic\"\nbase_url = %q\napi_key = \"k\"\n", srv.URL, srv.URL)
	w := kagedtest.NewWorld(t, config)
	dir := w.Project(t)
	d := w.Up(t, nil, "--insecure")
	r := &reader{t: t, base: d.LaunchURL}
	load, _ := r.do(http.MethodPost, "/api/v1/projects/load", fmt.Sprintf(`{"path":%q}`, dir))
	r.project, _ = load["id"].(string)
	cases := known()
	for i := range *extremes {
		cases = append(cases, anExtreme().Example(*extremesSeed+i))
	}
	for i, x := range cases {
		provider.set(x)
		r.try(i, x)
	}
	d.Kill()
	d = w.Up(t, nil, "--insecure")
	r.base, r.csrf = d.LaunchURL, "" // each start has a different secret
	c := w.SignIn(t)
	for _, s := range r.sessions {
		r.readAll(s)
		replay(t, c, s)
	}
	for _, s := range r.sessions {
		if _, status := r.do(http.MethodDelete, "/api/v1/sessions/"+s.id+"?confirm=true", ""); status != http.StatusOK {
			t.Errorf("got %d for the end of session %s, want 200", status, s.id)
		}
	}
}

// tried is a session with its runs.
type tried struct {
	what, id string
	runs     []string
}

// reader sends requests to a daemon without authentication.
type reader struct {
	t        *testing.T
	base     string
	csrf     string
	project  string
	routes   []string // the routes for GET
	sessions []tried
}

// do makes a request, fails the test for a status of 500 and more but 503, and for a body that is not JSON, and
// returns the body.
func (r *reader) do(method, path, body string) (map[string]any, int) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, strings.TrimSuffix(r.base, "/")+path,
		strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if method != http.MethodGet {
		if r.csrf == "" {
			me, _ := r.do(http.MethodGet, "/api/v1/me", "")
			r.csrf, _ = me["csrf_token"].(string)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Kaged-CSRF", r.csrf)
		req.AddCookie(&http.Cookie{Name: "kaged_csrf", Value: r.csrf})
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil || resp.StatusCode >= 500 {
		r.t.Errorf("got %d %.300s and error %v for %s %s, want JSON and no failure of the server", resp.StatusCode, data, err,
			method, path)
	}
	return out, resp.StatusCode
}

// try plays one case in a new session and reads all routes.
func (r *reader) try(i int, x extreme) {
	r.t.Helper()
	s := tried{
		what: fmt.Sprintf("case %d: %.60q", i, fmt.Sprintf("%s %.40s %.20s %v", x.Driver, x.CallInput, x.Text, x.Counts)),
	}
	created, status := r.do(http.MethodPost, "/api/v1/projects/"+r.project+"/sessions", `{"label":`+x.Label+`}`)
	if status != http.StatusCreated {
		created, _ = r.do(http.MethodPost, "/api/v1/projects/"+r.project+"/sessions", `{}`)
	}
	s.id, _ = created["id"].(string)
	path := "/api/v1/sessions/" + s.id
	r.do(http.MethodPatch, path, `{"label":`+x.Label+`}`)
	r.do(http.MethodPut, path, `{"label":`+x.Label+`}`)
	model := fmt.Sprintf(`{"content":"Go.","model_override":"%s:claude-sonnet-4-5"}`, x.Driver)
	for _, body := range []string{model, x.Body} { // the second message runs on the state after the first
		posted, status := r.do(http.MethodPost, path+"/messages", body)
		if status != http.StatusAccepted {
			continue
		}
		run, _ := posted["run_id"].(string)
		s.runs = append(s.runs, run)
		kagedtest.Eventually(r.t, s.what+" ends", func() bool {
			got, _ := r.do(http.MethodGet, path+"/runs/"+run, "")
			return got["outcome"] != nil
		})
	}
	r.sessions = append(r.sessions, s)
	r.readAll(s)
}

// ofSession matches the routes that show projects, sessions and their parts.
var ofSession = regexp.MustCompile(`^/api/v1/(projects|sessions|approvals|audit|processes|issues)`)

// answersJSON reports whether an operation of the description returns 200 with JSON, which sockets and streams do not.
func answersJSON(operation any) bool {
	for _, key := range []string{"responses", "200", "content"} {
		m, _ := operation.(map[string]any)
		operation = m[key]
	}
	content, _ := operation.(map[string]any)
	return content["application/json"] != nil
}

// readAll reads every readable route of the contract, for a session and each of its runs.
func (r *reader) readAll(s tried) {
	r.t.Helper()
	if r.routes == nil {
		contract, _ := r.do(http.MethodGet, "/api/v1/openapi.json", "")
		paths, _ := contract["paths"].(map[string]any)
		for path, methods := range paths {
			if m, _ := methods.(map[string]any); ofSession.MatchString(path) && answersJSON(m["get"]) {
				r.routes = append(r.routes, path)
			}
		}
		if len(r.routes) < 8 {
			r.t.Fatalf("got routes %q, want those of the contract", r.routes)
		}
	}
	for _, route := range r.routes {
		runs := append(s.runs[:len(s.runs):len(s.runs)], "none")
		if !strings.Contains(route, "{run_id}") {
			runs = runs[:1]
		}
		for _, run := range runs {
			route := strings.NewReplacer("{session_id}", s.id, "{run_id}", run, "{project_id}", r.project, "sessions/{id}",
				"sessions/"+s.id,
				"projects/{id}", "projects/"+r.project).Replace(route)
			_, status := r.do(http.MethodGet, route, "")
			if wanted := !strings.Contains(route, "none") && !strings.Contains(route, "{"); wanted && status != http.StatusOK {
				r.t.Errorf("%s: got %d for GET %s, want 200", s.what, status, route)
			}
		}
	}
	got, _ := r.do(http.MethodGet, "/api/v1/sessions/"+s.id, "")
	messages, _ := r.do(http.MethodGet, "/api/v1/sessions/"+s.id+"/messages?limit=200", "")
	items, _ := messages["items"].([]any)
	if count, _ := got["message_count"].(float64); int(count) != 2*len(s.runs) ||
		(len(items) != int(count) && messages["has_more"] != true) {
		r.t.Errorf("%s: got %d messages of %v, want two for each of %d runs", s.what, len(items), got["message_count"],
			len(s.runs))
	}
}

// replay reads all frames of a session, which every client can read.
func replay(t *testing.T, c *client.Client, s tried) {
	t.Helper()
	if len(s.runs) == 0 {
		return
	}
	again := kagedtest.Session{ID: s.id, Client: c}
	again.Attach(t, nil)
	defer again.Socket.Close()
	for ended := 0; ended < len(s.runs); {
		f := again.Next(t)
		var payload any
		if err := json.Unmarshal(f.Raw, &payload); err != nil {
			t.Errorf("%s: got a frame that is not JSON: %v", s.what, errors.Join(err))
		}
		if f.Type == "run.ended" {
			ended++
		}
	}
	again.Contiguous(t)
}
