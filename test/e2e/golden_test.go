package e2e_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite testdata/golden from this run")

// Every frame and every HTTP answer of one session is byte-equal to testdata/golden, apart from ids, times and paths.
// The session reads, fails, edits, runs a command, requests approval twice, is cancelled once and has a provider that
// refuses.
func TestGoldenSession(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(goldenModel)
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	d := w.Up(t, databaseEnv(t), "--insecure")
	dir := w.Project(t)
	kagedtest.Write(t, dir, "doomed.txt", "doomed\n")
	c := kagedtest.Checked(t, client.New(d.LaunchURL))
	if err := c.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := kagedtest.Open(t, c, dir)
	s.Run(t, "work")
	s.Send(t, "approve")
	answerGolden(t, s, "approve")
	s.Send(t, "deny")
	answerGolden(t, s, "deny")
	run := s.Send(t, "hang")
	s.Until(t, "message.delta")
	kagedtest.Post[any](t, c, "/api/v1/sessions/"+s.ID+"/runs/"+run+"/cancel", map[string]any{})
	untilRunEnds(t, s)
	s.Run(t, "refuse")

	s.Contiguous(t)

	g := &golden{mask: newMask(w.Dir, d.LaunchURL), csrf: kagedtest.Get[struct {
		Token string `json:"csrf_token"`
	}](t, c, "/api/v1/me").Token}
	g.frames(s.Frames)
	for _, path := range []string{
		"/api/v1/me", "/api/v1/versions", "/api/v1/projects", "/api/v1/projects/" + s.Project,
		"/api/v1/projects/" + s.Project + "/capabilities",
		"/api/v1/projects/" + s.Project + "/sessions", "/api/v1/sessions/" + s.ID, "/api/v1/sessions/" + s.ID + "/messages",
		"/api/v1/sessions/" + s.ID + "/messages?limit=2", "/api/v1/sessions/" + s.ID + "/runs",
		"/api/v1/sessions/" + s.ID + "/runs/" + run,
		"/api/v1/sessions/" + s.ID + "/approvals", "/api/v1/sessions/" + s.ID + "/processes", "/api/v1/processes",
		"/api/v1/audit?limit=200&event_type=run.ended,tool.*,file.*,message.*,session.*&session=" + s.ID,
		"/api/v1/sessions/none", "/api/v1/projects/none", "/api/v1/nothing", "/api/v1/sessions/" + s.ID + "/runs/none",
		"/api/v1/sessions/" + s.ID + "/messages?limit=x", "/healthz", "/readyz",
	} {
		g.answer(t, http.MethodGet, d.LaunchURL, path, "")
	}
	g.answer(t, http.MethodPost, d.LaunchURL, "/api/v1/sessions/"+s.ID+"/messages", `{"content":`)
	g.answer(t, http.MethodPost, d.LaunchURL, "/api/v1/projects/load", `{"path":"relative"}`)
	g.answer(t, http.MethodPut, d.LaunchURL, "/api/v1/sessions/"+s.ID, `{"title":"a name"}`)
	g.answer(t, http.MethodDelete, d.LaunchURL, "/api/v1/sessions/"+s.ID, "")
	g.compare(t, filepath.Join("testdata", "golden", "session.txt"))
}

// goldenModel answers according to the operator's last message and the number of turns since.
func goldenModel(r *fakellm.Request) fakellm.Step {
	step := goldenStep(r)
	if r.LastText() == "refuse" {
		return step
	}
	return append(fakellm.Step{fakellm.Usage(llm.Usage{Input: 1000, Output: 10})}, step...)
}

func goldenStep(r *fakellm.Request) fakellm.Step {
	asked, turns := "", 0
	for _, m := range r.Messages {
		if m.Role == llm.RoleAssistant {
			turns++
			continue
		}
		for _, b := range m.Blocks {
			if b.Text != nil {
				asked, turns = b.Text.Text, 0
			}
		}
	}
	work := []fakellm.Step{
		{fakellm.Think("A plan."), fakellm.Say("Reading."), fakellm.Tool("file.read", `{"path":"wordcount.go","limit":3}`)},
		{fakellm.Tool("search.grep", `{"pattern":"Trim","output_mode":"content"}`)},
		{fakellm.Tool("file.read", `{"path":"../outside"}`)},
		{fakellm.Tool("file.read", `{"path":"missing.go"}`)},
		{fakellm.Tool("edit.text", `{"path":"wordcount.go","old_string":"times","new_string":"counts","replace_all":true}`)},
		{fakellm.Tool("file.write", `{"path":"new/note.txt","content":"one\ntwo\n"}`)},
		{fakellm.Tool("shell.bash", `{"command":"printf 'a\\nb\\n'; exit 3"}`)},
		{fakellm.Tool("shell.bash", `{"command":"rm -rf /"}`)},
		{fakellm.Tool("no.tool", `{"a":[1,2.5,null,true]}`)},
	}
	switch {
	case asked == "work" && turns < len(work):
		return work[turns]
	case (asked == "approve" || asked == "deny") && turns == 0:
		return fakellm.Step{fakellm.Say("Asking."), fakellm.Tool("shell.bash", `{"command":"unlink doomed.txt"}`)}
	case asked == "hang":
		return fakellm.Step{fakellm.Say("Waiting."), fakellm.Hang()}
	case asked == "refuse":
		return fakellm.Step{fakellm.Status(401, "invalid x-api-key")}
	}
	return fakellm.Step{fakellm.Say("Done.")}
}

// answerGolden answers the pending approval and reads to the end of the run.
func answerGolden(t *testing.T, s *kagedtest.Session, decision string) {
	t.Helper()
	var asked struct {
		ApprovalID string `json:"approval_id"`
	}
	kagedtest.Payload(t, s.Until(t, "approval.requested"), &asked)
	kagedtest.Post[any](t, s.Client, "/api/v1/sessions/"+s.ID+"/approvals/"+asked.ApprovalID,
		map[string]any{"decision": decision, "comment": "golden"})
	untilRunEnds(t, s)
}

// untilRunEnds reads to the end of the run on both channels, which end in either order.
func untilRunEnds(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	ended := map[string]bool{}
	for len(ended) < 2 {
		if f := s.Next(t); f.Type == "message.end" || f.Type == "session.state" && bytes.Contains(f.Raw, []byte(`"idle"`)) {
			ended[f.Type] = true
		}
	}
}

// golden is the text that a run produces: frames by channel, then answers.
type golden struct {
	mask *mask
	csrf string
	text strings.Builder
}

// frames adds the frames of each channel in order. Consecutive deltas count as one, because the number of deltas per
// frame depends on the machine.
func (g *golden) frames(all []client.Frame) {
	for _, channel := range []string{"events", "output"} {
		fmt.Fprintf(&g.text, "== %s\n", channel)
		previous := ""
		for _, f := range all {
			if f.Channel != channel {
				continue
			}
			line := seq.ReplaceAllString(g.mask.line(f.Raw), "")
			if f.Type == "message.delta" || f.Type == "message.tool_output" {
				line = joinable.ReplaceAllString(line, "")
				if line == previous {
					continue
				}
			}
			previous = line
			fmt.Fprintln(&g.text, line)
		}
	}
}

var (
	// joinable are the parts of a delta that depend on the number of deltas per frame; the numbers of all later frames
	// depend on it too.
	joinable = regexp.MustCompile(`,?"(delta|data)":"(\\.|[^"\\])*"`)
	seq      = regexp.MustCompile(`"seq":\d+,`)
)

// answer sends a request and adds its status, the headers that clients use, and its body.
func (g *golden) answer(t *testing.T, method, base, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("X-Kaged-CSRF", g.csrf)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&g.text, "== %s %s\n%d %s\n", method, g.mask.line([]byte(path)), resp.StatusCode,
		resp.Header.Get("Content-Type"))
	fmt.Fprintln(&g.text, g.mask.line(data))
}

// goldenSpent matches the used part of a budget. A cancelled call is charged by an estimate of its request, which
// contains paths of the test's folder.
var goldenSpent = regexp.MustCompile(`("spent":\{|"agent_path":"primary",)"usd":[0-9.]+,"tokens":\d+`)

// compare fails the test if the text differs from the file, or rewrites the file with -update-golden.
func (g *golden) compare(t *testing.T, file string) {
	t.Helper()
	got := g.text.String()
	if *updateGolden {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := at(gotLines, i), at(wantLines, i)
		if g != w {
			t.Fatalf("line %d of %s (rewrite with -update-golden):\n got %s\nwant %s", i+1, file, g, w)
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(no line)"
}

// mask replaces the parts of a text that differ between runs: each id by the number of its first appearance, times and
// measures by a constant, folders and addresses by names.
type mask struct {
	places *strings.Replacer
	ids    map[string]string
}

func newMask(dir, base string) *mask {
	return &mask{
		places: strings.NewReplacer(dir, "$WORLD", strings.TrimSuffix(base, "/"), "$BASE"), ids: map[string]string{},
	}
}

var (
	goldenID      = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{64}|toolu_[A-Za-z0-9_]+|msg_[A-Za-z0-9_]+`)
	goldenTime    = regexp.MustCompile(`\b1[6-9]\d{11}\b`)
	goldenMeasure = regexp.MustCompile(`"(duration|ttft|tps|duration_ms|elapsed_ms|waited_ms|pid|memory|memory_bytes|cpu_ms|csrf_token|version|commit|started|uptime_ms|` +
		`model_ms|size|cursor|next_cursor|go|build)":("(\\.|[^"\\])*"|-?[\d.e+-]+)`)
)

func (m *mask) line(raw []byte) string {
	line := m.places.Replace(string(bytes.TrimRight(raw, "\n")))
	line = goldenID.ReplaceAllStringFunc(line, func(id string) string {
		if m.ids[id] == "" {
			m.ids[id] = fmt.Sprintf("ID%d", len(m.ids)+1)
		}
		return m.ids[id]
	})
	line = goldenMeasure.ReplaceAllString(line, `"$1":"*"`) // first, because the digits of a fraction may look like a time
	line = goldenSpent.ReplaceAllString(line, `${1}"usd":SPENT,"tokens":SPENT`)
	return goldenTime.ReplaceAllString(line, "TIME")
}
