package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// surface is a client of the API that checks the common form of every answer.
type surface struct {
	t    *testing.T
	base string
	http *http.Client
	csrf string
	// user is the caller; with an insecure daemon "" is its operator.
	user string
	ids  map[string]bool // the ids of requests
}

func newSurface(t *testing.T, base, user string) *surface {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &surface{
		t: t, base: base, user: user, http: &http.Client{Jar: jar, Transport: &http.Transport{}}, ids: map[string]bool{},
	}
	t.Cleanup(s.http.CloseIdleConnections)
	s.csrf, _ = s.get("/api/v1/me", 200)["csrf_token"].(string)
	return s
}

func (s *surface) get(path string, status int) map[string]any {
	s.t.Helper()
	return s.do(http.MethodGet, path, "", status)
}

// do sends a request, checks the answer's status and form, and returns its body.
func (s *surface) do(method, path, body string, status int) map[string]any {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("X-Kaged-CSRF", s.csrf)
	if s.user != "" {
		req.Header.Set("X-Kaged-User-Id", s.user)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	what := method + " " + path
	if resp.StatusCode != status {
		s.t.Fatalf("%s: %d %s, want %d", what, resp.StatusCode, data, status)
	}
	id := resp.Header.Get("X-Kaged-Request-Id")
	if !ulid.MatchString(id) || s.ids[id] || resp.Header.Get("X-Kaged-Daemon-Version") == "" ||
		resp.Header.Get("Cache-Control") != "no-store" ||
		resp.Header.Get("Content-Type") != "application/json; charset=utf-8" {
		s.t.Errorf("%s: headers %v", what, resp.Header)
	}
	s.ids[id] = true
	var out map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		s.t.Fatalf("%s: %s: %v", what, data, err)
	}
	wellFormed(s.t, what, "", out)
	e, _ := out["error"].(map[string]any)
	if refused := status >= 400; refused && e["request_id"] != id || !refused && e["request_id"] != nil {
		s.t.Errorf("%s: %d %s", what, status, data)
	}
	return out
}

var (
	ulid      = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)
	snakeCase = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
)

// ulids are the keys with ULID values, times those with milliseconds; null stands for an absent value.
var (
	ulids = []string{
		"session_id", "run_id", "message_id", "trigger_message_id", "request_id", "subagent_invocation_id", "resume_from",
	}
	times = []string{"ts", "since"}
)

// wellFormed checks a body against the common rules: names in snake case, ids that are ULIDs, times in whole
// milliseconds (A-WIRE-IDS-02, -03, A-WIRE-TIME-01, -02).
func wellFormed(t *testing.T, what, key string, value any) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			if key == "payload" || key == "input" || key == "resolved_aliases" || key == "prompt_hashes" || key == "details" {
				continue // the keys of these objects are free
			}
			if !snakeCase.MatchString(k) {
				t.Errorf("%s: key %q", what, k)
			}
			wellFormed(t, what, k, inner)
		}
	case []any:
		for _, inner := range v {
			wellFormed(t, what, key, inner)
		}
	case string:
		if slices.Contains(ulids, key) && v != "" && !ulid.MatchString(v) {
			t.Errorf("%s: %s is %q", what, key, v)
		}
		if strings.HasSuffix(key, "_at") || slices.Contains(times, key) {
			t.Errorf("%s: the time %s is the text %q", what, key, v)
		}
	case json.Number:
		if strings.HasSuffix(key, "_at") || slices.Contains(times, key) {
			if n, err := v.Int64(); err != nil || n <= 1e12 {
				t.Errorf("%s: the time %s is %s", what, key, v)
			}
		}
	}
}

// items returns the items of a page.
func items(page map[string]any) []map[string]any {
	list, _ := page["items"].([]any)
	out := make([]map[string]any, len(list))
	for i, item := range list {
		out[i], _ = item.(map[string]any)
	}
	return out
}

func keys(m map[string]any) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// All requests of a session to a real daemon: every answer has the common form, ids are ULIDs that cannot be guessed,
// times are milliseconds, failures of a run are in the body and not in the status, and another user's resources look
// like missing ones.
//
// A-WIRE-SCOPE-01, -02, A-WIRE-VERS-01, A-WIRE-CTYPE-04, A-WIRE-IDS-01..03, -05, A-WIRE-TIME-01, -02, A-ERR-SHAPE-04,
// A-ERR-CODE-04, -05, -08, A-URL-SESS-01, A-PROJ-GET-02, A-SESS-NEW-03, A-SESS-GET-01..03, A-SESS-LIST-03,
// A-MSG-LIST-02, -04, A-RUN-LIST-01, A-RUN-STATE-01, A-AUDIT-03, -05, A-WS-BP-01, A-WS-CTRL-06, A-CONTRA-05, -11.
func TestTheSurfaceOfASession(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(
		fakellm.Step{fakellm.Say("Let me look."), fakellm.Tool("file.read", `{"path":"go.mod"}`)},
		fakellm.Step{fakellm.Say("It is a module.")},
		fakellm.Step{fakellm.Status(401, "no")},
		fakellm.Step{fakellm.Say("I wait."), fakellm.Hang()},
	))
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	d := w.Up(t, databaseEnv(t), "--insecure")
	ann, bob := newSurface(t, d.LaunchURL, ""), newSurface(t, d.LaunchURL, "bob")
	for _, path := range []string{"/api/v2/me", "/api/me", "/api/v1/zzz", "/api/v1/projects/nope"} {
		ann.get(path, 404)
	}

	projects(t, ann, w)
	session := sessions(t, ann, bob)
	socket := kagedtest.Session{ID: session, Client: w.SignIn(t)}
	socket.Attach(t, nil)
	for i, outcome := range []string{"completed", "failed"} {
		if got := socket.Run(t, fmt.Sprintf("message %d", i)); got != outcome {
			t.Errorf("run %d %s: %s", i, got, socket.Frames[len(socket.Frames)-1].Raw)
		}
	}
	run := socket.Send(t, "message 2")
	socket.Until(t, "message.delta")
	ann.do("POST", "/api/v1/sessions/"+session+"/runs/"+run+"/cancel", "", 200)
	history(t, ann, session)
	record(t, ann, session)

	ann.do("DELETE", "/api/v1/sessions/"+session, "", 400)
	if got := ann.do("DELETE", "/api/v1/sessions/"+session+"?confirm=true", "", 200); got["state"] != "ended" {
		t.Errorf("the ended session is %v", got["state"])
	}
	closing := socket.Until(t, "closing")
	if !strings.Contains(string(closing.Payload), `"code":"session_ended"`) {
		t.Errorf("the last frame is %s", closing.Raw)
	}
	socket.Contiguous(t)
	for _, f := range socket.Frames {
		var frame map[string]any
		dec := json.NewDecoder(strings.NewReader(string(f.Raw)))
		dec.UseNumber()
		if err := dec.Decode(&frame); err != nil || keys(frame) != "channel payload seq type" {
			t.Fatalf("frame %s: %v", f.Raw, err)
		}
		payload, _ := frame["payload"].(map[string]any)
		wellFormed(t, f.Type, "", payload)
		if f.Type == "message.end" && !slices.Contains([]any{"stop", "error", "aborted"}, payload["stop_reason"]) {
			t.Errorf("a message ends with %v", payload["stop_reason"])
		}
	}
	ann.do("POST", "/api/v1/sessions/"+session+"/messages", `{"content":"more"}`, 410)
	if got := ann.get("/api/v1/sessions/"+session, 200); got["state"] != "ended" || got["ended_at"] == nil {
		t.Errorf("the ended session reads %v", got)
	}
}

// projects loads the example and some invalid projects.
func projects(t *testing.T, ann *surface, w *kagedtest.World) {
	t.Helper()
	load := func(dir string, status int) map[string]any {
		body, _ := json.Marshal(map[string]string{"path": dir})
		return ann.do("POST", "/api/v1/projects/load", string(body), status)
	}
	for name, yaml := range map[string]string{
		"upper": "version: 1\nproject: Upper\nprimary: {model: smart-generalist, system_prompt: ./p.md}\n",
		"empty": "version: 1\nproject: music\nprimary:\n  model: 3\n",
	} {
		dir := filepath.Join(w.Dir, name)
		kagedtest.Write(t, dir, ".kaged/project.yaml", yaml)
		e := load(dir, 422)["error"].(map[string]any)
		errors, _ := e["details"].(map[string]any)["errors"].([]any)
		if e["code"] != "dsl_invalid" || len(errors) == 0 {
			t.Fatalf("%s: %v", name, e)
		}
		first := errors[0].(map[string]any)
		if first["path"] == "" || first["reason"] == "" || first["line"] == json.Number("0") ||
			first["column"] == json.Number("0") {
			t.Errorf("%s: %v", name, first)
		}
	}
	if got := ann.get("/api/v1/projects", 200); len(items(got)) != 0 {
		t.Errorf("what does not compile is registered: %v", got)
	}
	loaded := load(w.Project(t), 201)
	if label, given := loaded["label"]; !given || label != nil || loaded["id"] != "wordcount" {
		t.Errorf("loaded %v", loaded)
	}
	capabilities(t, ann, w, load)
}

// capabilities reads the rights of root agents before any run: of one without a cage, and of one with a cage
// (A-PROJ-CAP-01..05).
func capabilities(t *testing.T, ann *surface, w *kagedtest.World, load func(string, int) map[string]any) {
	t.Helper()
	dir := filepath.Join(w.Dir, "caged")
	kagedtest.Write(t, dir, "p.md", "Help.")
	kagedtest.Write(t, dir, ".kaged/project.yaml", "version: 1\nproject: caged\nprimary:\n  model: smart-generalist\n  "+
		"system_prompt: ./p.md\n"+
		"  tools: {\"*\": {enabled: false}, file.read: {enabled: true}}\n"+
		"  cage: {fs: [{mode: rw, path: ./src}, {mode: ro, path: /usr/share}], net: {allow: [\"b.example:2\", "+
		"\"a.example:1\"]}}\n")
	load(dir, 201)
	text := func(v any) string {
		data, _ := json.Marshal(v)
		return string(data)
	}
	free, caged := ann.get("/api/v1/projects/wordcount/capabilities", 200),
		ann.get("/api/v1/projects/caged/capabilities", 200)
	if got := text(free["filesystem"]) +
		text(free["network"]); got != `{"mode":"disabled","mounts":[]}{"allowlist":[],"mode":"disabled"}` {
		t.Errorf("without a cage: %s", got)
	}
	want := `{"mode":"isolated","mounts":["project:/src","/usr/share"]}{"allowlist":["b.example:2","a.example:1"],` +
		`"mode":"isolated"}`
	if got := text(caged["filesystem"]) + text(caged["network"]); got != want {
		t.Errorf("in a cage: %s", got)
	}
	count := func(c map[string]any, list string) int { return len(c["tools"].(map[string]any)[list].([]any)) }
	if got := text(caged["tools"].(map[string]any)["enabled"]); got != `["file.read"]` ||
		count(caged, "enabled")+count(caged, "disabled") != count(free, "enabled")+count(free, "disabled") {
		t.Errorf("the tools are %v, and without the switch %v", caged["tools"], free["tools"])
	}
	ann.get("/api/v1/projects/nope/capabilities", 404)
	ann.do("DELETE", "/api/v1/projects/caged?confirm=true", "", 200)
}

// sessions creates more sessions than may run at once and returns one of ann's sessions.
func sessions(t *testing.T, ann, bob *surface) string {
	t.Helper()
	var ids []string
	for range 6 {
		ids = append(ids, ann.do("POST", "/api/v1/projects/wordcount/sessions", "", 201)["id"].(string))
	}
	if !slices.IsSorted(ids) || !ulid.MatchString(ids[0]) {
		t.Errorf("sessions are called %q", ids)
	}
	for _, s := range items(ann.get("/api/v1/projects/wordcount/sessions", 200)) {
		if s["state"] != "idle" {
			t.Errorf("a fresh session is %v", s["state"])
		}
	}
	session := ids[0]
	got := ann.get("/api/v1/sessions/"+session, 200)
	for _, key := range []string{
		"id", "project_id", "name", "state", "created_at", "updated_at", "message_count", "model_override",
		"max_steps_override",
		"max_output_tokens_override", "current_run", "live_subagents",
	} {
		if _, there := got[key]; !there {
			t.Errorf("a session has no %s: %s", key, keys(got))
		}
	}
	if got["model_override"] != nil || got["current_run"] != nil || got["project_id"] != "wordcount" {
		t.Errorf("a fresh session is %v", got)
	}
	if got := ann.do("PUT", "/api/v1/sessions/"+session, `{"model_override":"fake:claude-haiku-4-5"}`,
		200); got["model_override"] != "fake:claude-haiku-4-5" {
		t.Errorf("with an override: %v", got)
	}
	if got := ann.do("PUT", "/api/v1/sessions/"+session, `{"model_override":null}`, 200); got["model_override"] != nil {
		t.Errorf("without it: %v", got)
	}

	// A guessed id and another user's id get the same answer.
	next := session[:25] + string(
		"0123456789ABCDEFGHJKMNPQRSTVWXYZ0"[strings.IndexByte("0123456789ABCDEFGHJKMNPQRSTVWXYZ", session[25])+1],
	)
	answer := func(who *surface, id string) string {
		e := who.get("/api/v1/sessions/"+id, 404)["error"].(map[string]any)
		delete(e, "request_id")
		text, _ := json.Marshal(e)
		return strings.ReplaceAll(string(text), id, "ID")
	}
	if mine, theirs := answer(ann, next), answer(bob, session); mine != theirs {
		t.Errorf("an unknown session: %s; somebody else's: %s", mine, theirs)
	}
	bob.get("/api/v1/projects/wordcount", 404)
	bob.do("POST", "/api/v1/sessions/"+session+"/messages", `{"content":"hi"}`, 404)
	csrf := bob.csrf
	bob.csrf = ann.csrf
	if e := bob.do("POST", "/api/v1/sessions/"+session+"/messages", `{"content":"hi"}`,
		403)["error"].(map[string]any); e["code"] != "forbidden" {
		t.Errorf("with somebody else's token: %v", e)
	}
	bob.csrf = csrf
	return session
}

// history checks the result of the three runs: their messages and their ends.
func history(t *testing.T, ann *surface, session string) {
	t.Helper()
	messages := items(ann.get("/api/v1/sessions/"+session+"/messages", 200))
	if len(messages) != 6 {
		t.Fatalf("%d messages", len(messages))
	}
	for i, m := range messages {
		if want := []string{"operator", "primary"}[i%2]; m["role"] != want || m["session_id"] != session ||
			m["content"] == nil || m["created_at"] == nil {
			t.Errorf("message %d: %v", i, m)
		}
		if _, there := m["subagent_invocation_id"]; there {
			t.Errorf("message %d names a subagent", i)
		}
		for _, method := range []string{"PUT", "DELETE"} { // PATCH pins a message
			ann.do(method, fmt.Sprintf("/api/v1/sessions/%s/messages/%s", session, m["id"]), "", 405)
		}
	}
	var types []string
	for _, part := range messages[1]["parts"].([]any) {
		types = append(types, part.(map[string]any)["type"].(string))
	}
	if want := []string{"text", "tool_call", "tool_result", "text"}; !slices.Equal(types, want) {
		t.Errorf("the first answer's parts are %q", types)
	}
	runs := items(ann.get("/api/v1/sessions/"+session+"/runs", 200))
	for i, outcome := range []string{"completed", "failed", "cancelled"} {
		r := runs[i]
		if r["outcome"] != outcome || r["trigger_message_id"] != messages[2*i]["id"] || r["duration_ms"] == nil {
			t.Errorf("run %d: %v", i, r)
		}
		full := ann.get(fmt.Sprintf("/api/v1/sessions/%s/runs/%s", session, r["id"]), 200)
		if full["state"] != outcome || (full["error"] != nil) != (outcome == "failed") {
			t.Errorf("run %d in full: %v", i, full)
		}
	}
	ann.do("POST", fmt.Sprintf("/api/v1/sessions/%s/runs/%s/cancel", session, runs[0]["id"]), "", 409)
	other := items(ann.get("/api/v1/projects/wordcount/sessions", 200))[0]["id"].(string)
	ann.get(fmt.Sprintf("/api/v1/sessions/%s/runs/%s", other, runs[0]["id"]), 404)
}

// record checks the audit record: it has each action under the request that caused it.
func record(t *testing.T, ann *surface, session string) {
	t.Helper()
	entries := items(ann.get("/api/v1/audit?limit=200&session="+session, 200))
	var types []string
	for _, e := range append(entries, items(ann.get("/api/v1/audit?event_type=auth.request", 200))...) {
		for _, key := range []string{
			"id", "ts", "event_type", "user_id", "request_id", "project_id", "session_id", "payload",
		} {
			if _, there := e[key]; !there {
				t.Errorf("an entry has no %s: %v", key, e)
			}
		}
		if !ulid.MatchString(e["id"].(string)) || e["session_id"] == session && e["user_id"] != "insecure-mode" {
			t.Errorf("entry %v", e)
		}
		types = append(types, e["event_type"].(string))
	}
	for _, want := range []string{
		"session.created", "session.updated", "message.posted", "tool.called", "tool.completed", "run.ended",
		"run.cancel_requested",
	} {
		if !slices.Contains(types, want) {
			t.Errorf("the record of the session has no %s: %q", want, types)
		}
	}
	if !slices.Contains(types, "auth.request") {
		t.Errorf("requests of insecure mode are not in the record: %q", types)
	}
	page := ann.get("/api/v1/audit?event_type=project.*,auth.request&limit=1", 200)
	if len(items(page)) != 1 || page["has_more"] != true || page["next_cursor"] == nil {
		t.Errorf("a page of one: %v", page)
	}
	if empty := ann.get("/api/v1/audit?project_id=nothing", 200); len(items(empty)) != 0 || empty["has_more"] != false ||
		empty["next_cursor"] != nil {
		t.Errorf("nothing: %v", empty)
	}
	for _, method := range []string{"PUT", "PATCH", "DELETE"} {
		ann.do(method, "/api/v1/audit", "", 405)
	}
}

// A client whose connection was lost can reconnect at once, without a takeover, and continue after its last frame, any
// number of times (A-WS-UP-04, A-WS-REC-02).
func TestComingBackAtOnce(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.ScriptEach(fakellm.Steps(fakellm.Step{fakellm.Say("Hello.")}))
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	w.Up(t, databaseEnv(t))
	s := kagedtest.Open(t, w.SignIn(t), w.Project(t))
	if outcome := s.Run(t, "Hi."); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	for range 20 {
		seen := s.Seen()
		s.Socket.Close() // no closing handshake
		s.Attach(t, seen)
	}
	s.Contiguous(t)
}
