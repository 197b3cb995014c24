package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/test/e2e/kagedtest"
)

const srcAndDocs = "{fs: [{mode: rw, path: ./src}, {mode: ro, path: ./docs}], capabilities: [shell]}"

// A caged agent's commands can access the files that its policy grants and no others; its file tools have the same
// limits. Each run has a home folder of its own. The state of the cage is shown, recorded, and removed with the run
// (H-SUP-CAGE-01, A-SESS-GET-04, T-AVAIL-10).
func TestACagedAgent(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, srcAndDocs)
	s := c.session()
	out := c.shell(s, "cat ../docs/d; cat ../secret/s; echo new >new; echo x >../docs/x; ls -1 ..; id -un; echo $HOME; "+
		"touch ~/mark")
	for _, want := range []string{
		"a document", "docs\r\nsrc\r\nagent\r\n/home/agent", "secret/s: No such file", "docs/x: Read-only file system",
	} {
		if want = strings.ReplaceAll(want, "\r\n", "\n"); !strings.Contains(strings.ReplaceAll(out, "\r\n", "\n"), want) {
			t.Errorf("no %q in what the command printed:\n%s", want, out)
		}
	}
	if got := kagedtest.Read(t, c.dir, "src/new"); got != "new\n" {
		t.Errorf("src/new holds %q", got)
	}
	if home := c.shell(s, "ls -A ~"); home != "" {
		t.Errorf("the second run's home holds %q", home)
	}
	for path, granted := range map[string]bool{"docs/d": true, "src/a": true, "secret/s": false, "prompt.md": false} {
		if _, result := c.does(s, "file.read", map[string]any{"path": path}); strings.Contains(result,
			`"code":"capability_denied"`) == granted {
			t.Errorf("file.read of %s: %s", path, result)
		}
	}
	if run := c.lastRun(s); run.CageStatus != "caged" {
		t.Errorf("the run is %+v", run)
	}
	shown := frames(t, s, "run.cage")
	if len(shown) != 6 || shown[0]["cage_status"] != "caged" || shown[0]["tier"] == "" ||
		!strings.Contains(fmt.Sprint(shown[0]["policy"]), "project:/src") {
		t.Errorf("shown are %v", shown)
	}
	records := c.recorded(s, "cage.*")
	if got := types(records); got != strings.TrimSpace(strings.Repeat("cage.opened cage.ended ", 6)) {
		t.Errorf("recorded are %s", got)
	}
	id := fmt.Sprint(records[0]["cage_id"])
	kagedtest.Eventually(t, "nothing is left", func() bool { return len(c.left(id)) == 0 })
	if now := c.running(s); len(now.Processes)+len(now.Cages) > 0 {
		t.Errorf("runs %+v", now)
	}
}

// A background process keeps its cage, and the agent's next run works in the same cage; kaged ps shows both. The end of
// the session ends all of them.
func TestBackgroundProcessesKeepTheCage(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, srcAndDocs)
	s := c.session()
	c.inBackground(s)
	now := c.running(s)
	if len(now.Processes) != 1 || len(now.Cages) != 1 || now.Processes[0].CageID != now.Cages[0].ID ||
		now.Processes[0].AgentPath != "primary" ||
		now.Cages[0].AgentPath != "primary" || now.Cages[0].Processes == 0 || now.Processes[0].Memory == 0 {
		t.Fatalf("runs %+v", now)
	}
	if home := strings.TrimSpace(c.shell(s, "ls -A ~")); home != "mark" {
		t.Errorf("the next run's home holds %q: it is another cage", home)
	}
	for _, args := range [][]string{{"ps"}, {"ps", "--session", s.ID}} {
		out, code := kagedtest.Command(t, "kaged", c.world.Env, args...).Rest(t)
		if code != 0 || !strings.Contains(out, s.ID+"  primary") || !strings.Contains(out, "(cage, ") ||
			!strings.Contains(out, "trap '' TERM HUP") {
			t.Errorf("kaged %v ended with %d and printed:\n%s", args, code, out)
		}
	}
	c.end(s)
	if left := c.marked(); len(left) > 0 {
		t.Errorf("after the session's end run %v", left)
	}
	if now := c.running(s); len(now.Processes)+len(now.Cages) > 0 {
		t.Errorf("after the session's end the list is %+v", now)
	}
	id := fmt.Sprint(c.recorded(s, "cage.opened")[0]["cage_id"])
	kagedtest.Eventually(t, "nothing is left", func() bool { return len(c.left(id)) == 0 })
	out, code := kagedtest.Command(t, "kaged", c.world.Env, "ps").Rest(t)
	if code != 0 || out != "No runs, commands, cages or language servers are active.\n" {
		t.Errorf("kaged ps ended with %d and printed %q", code, out)
	}
}

// kill -9 of the daemon takes every cage along, and its traces outside of the cages are removed.
func TestKilledDaemonLeavesNoCage(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, "{fs: [{mode: rw, path: .}], capabilities: [shell]}")
	s := c.session()
	c.inBackground(s)
	cage := c.running(s).Cages[0].ID
	if _, err := os.Lstat(filepath.Join(c.dir, ".git")); err != nil {
		t.Errorf("no stub protects .git while the cage lives: %v", err)
	}
	c.daemon.Kill()
	c.daemon.Rest(t)
	kagedtest.Eventually(t, "what ran in the cage has ended", func() bool { return len(c.marked()) == 0 })
	kagedtest.Eventually(t, "nothing is left", func() bool { return len(c.left(cage)) == 0 })
	c.up()
	if now := c.running(s); len(now.Processes)+len(now.Cages) > 0 {
		t.Errorf("after the next start runs %+v", now)
	}
}

// The walltime of an invocation ends its commands, its cage and its run, and each says why.
func TestWalltime(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, "{fs: [{mode: rw, path: ./src}], capabilities: [shell], limits: {walltime: 2s}}")
	s := c.session()
	outcome, _ := c.does(s, "shell.bash", map[string]any{"command": "sleep 1000", "cwd": "src"})
	run := c.lastRun(s)
	if outcome != "failed" || run.Error == nil || run.Error.Code != "timeout" ||
		!strings.Contains(run.Error.Message, "2s") || run.CageStatus != "caged" {
		t.Errorf("the run %s: %+v", outcome, run)
	}
	shown := frames(t, s, "run.cage")
	if last := shown[len(shown)-1]; last["ended"] != "walltime" {
		t.Errorf("shown are %v", shown)
	}
	if records := c.recorded(s, "cage.*"); types(records) != "cage.opened cage.ended" ||
		records[1]["reason"] != "walltime" {
		t.Errorf("recorded are %v", records)
	}
	// The session goes on, in a new cage.
	if out := c.shell(s, "echo still here"); !strings.Contains(out, "still here") {
		t.Errorf("the next run's command printed %q", out)
	}
}

// An agent whose cage cannot be made does not run: the run fails with the cause, and no model is asked (A-FAIL-05).
func TestNoCageNoRun(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, "{fs: [{mode: rw, path: ./nowhere}], capabilities: [shell]}")
	s := c.session()
	outcome, _ := c.does(s, "shell.bash", map[string]any{"command": "true"})
	run := c.lastRun(s)
	if outcome != "failed" || run.Error == nil || run.Error.Code != "cage_policy_invalid" ||
		!strings.HasPrefix(run.Error.Message, ".kaged/project.yaml:") ||
		!strings.Contains(run.Error.Message, "project:/nowhere") || run.CageStatus != "pending" {
		t.Errorf("the run %s: %+v", outcome, run)
	}
	if n := len(c.llm.Requests()); n > 0 {
		t.Errorf("the model was asked %d times", n)
	}
	// Mended, it runs.
	kagedtest.Write(t, c.dir, "nowhere/x", "x")
	if outcome, result := c.does(s, "shell.bash", map[string]any{
		"command": "ls",
		"cwd":     "nowhere",
	}); outcome != "completed" {
		t.Errorf("the run %s: %s", outcome, result)
	}
}

// Cancelling a run asks its caged commands to end before it kills them (A-RUN-CANCEL-01, H-CANCEL-01).
func TestCancelReachesCagedCommands(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, srcAndDocs)
	s := c.session()
	run := s.Send(t, words(t, "shell.bash", map[string]any{
		"command": "trap 'echo told >told; exit' TERM; echo up >up; while :; do sleep 0.1; done", "cwd": "src",
	}))
	kagedtest.Eventually(t, "the command runs", func() bool {
		_, err := os.Stat(filepath.Join(c.dir, "src", "up"))
		return err == nil
	})
	cancelled := kagedtest.Post[lastRun](t, c.client, "/api/v1/sessions/"+s.ID+"/runs/"+run+"/cancel", map[string]any{})
	if cancelled.State != "cancelled" {
		t.Errorf("the run is %+v", cancelled)
	}
	kagedtest.Eventually(t, "the command was told", func() bool {
		_, err := os.Stat(filepath.Join(c.dir, "src", "told"))
		return err == nil
	})
	kagedtest.Eventually(t, "nothing runs", func() bool {
		now := c.running(s)
		return len(now.Processes)+len(now.Cages) == 0
	})
}

// With --no-sandbox the agent works without its cage, and the record, the run, the frames and every response show this.
// Its file tools follow the policy nevertheless (A-HDR-OUT-03, A-WS-EV-07, A-AUDIT-05, decision 17).
func TestNoSandboxWarnsEverywhere(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, srcAndDocs, "--no-sandbox")
	s := c.session()
	if out := c.shell(s, "cat ../secret/s"); !strings.Contains(out, "hidden away") {
		t.Errorf("the command printed %q", out)
	}
	if _, result := c.does(s, "file.read", map[string]any{"path": "secret/s"}); !strings.Contains(result,
		`"code":"capability_denied"`) {
		t.Errorf("file.read: %s", result)
	}
	if run := c.lastRun(s); run.CageStatus != "uncaged" {
		t.Errorf("the run is %+v", run)
	}
	if shown := frames(t, s, "run.cage"); len(shown) != 2 || shown[0]["cage_status"] != "uncaged" {
		t.Errorf("shown are %v", shown)
	}
	if warned := frames(t, s, "audit.warning"); len(warned) != 1 || warned[0]["warning"] != "no-sandbox" {
		t.Errorf("warned by %v", warned)
	}
	records := c.recorded(s, "subagent.spawn.uncaged")
	if len(records) != 2 || records[0]["level"] != "warning" {
		t.Errorf("recorded are %v", records)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.client.BaseURL()+"/api/v1/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if said := c.daemon.Stderr.String(); !strings.Contains(said,
		"--no-sandbox: agents that ask for a cage work without one") {
		t.Errorf("kaged up said %s", said)
	}
	if warnings := resp.Header.Get("X-Kaged-Warning"); warnings != "no-sandbox" {
		t.Errorf("the warnings of a response are %q", warnings)
	}
}

// Each network attempt of a caged agent's command is allowed by a rule or refused at once. The model gets the missing
// rule, the operator sees each attempt, and it is recorded.
func TestNetworkOfACagedAgent(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	t.Cleanup(web.Close)
	address := strings.TrimPrefix(web.URL, "http://")
	host, port, _ := strings.Cut(address, ":")
	c := cagedProject(t, "{fs: [{mode: rw, path: ./src}], capabilities: [shell], net: {allow: [\""+address+"\"]}}")
	s := c.session()
	outcome, result := c.does(s, "shell.bash", map[string]any{"cwd": "src", "command": "bash -c '" +
		"exec 3<>/dev/tcp/" + host + "/" + port + " && printf \"GET / HTTP/1.0\\r\\n\\r\\n\" >&3 && cat <&3; " +
		"exec 4<>/dev/tcp/elsewhere.example/443; exec 5<>/dev/udp/8.8.8.8/53; exec " +
		"6<>/dev/udp/2001:4860:4860::8888/53'; true"})
	if outcome != "completed" || !strings.Contains(result, "served") {
		t.Errorf("the run %s: %s", outcome, result)
	}
	type refusal struct {
		Target, Reason string
		Count          int
	}
	var said struct {
		Refused []refusal `json:"network_refused"`
	}
	if err := json.Unmarshal([]byte(result), &said); err != nil || len(said.Refused) == 0 ||
		!strings.HasPrefix(said.Refused[0].Target, "elsewhere.example") ||
		said.Refused[0].Reason == "" || said.Refused[0].Count < 1 {
		t.Errorf("the model is told %s", result)
	}
	for _, target := range []string{"UDP", "UDP over IPv6"} {
		if !slices.ContainsFunc(said.Refused, func(r refusal) bool {
			return r.Target == target && r.Count == 1 && r.Reason != ""
		}) {
			t.Errorf("the model is not told of %s: %s", target, result)
		}
	}
	allowed := map[any]any{}
	for _, tried := range frames(t, s, "net.attempt") {
		allowed[tried["target"]] = tried["allowed"]
	}
	if allowed[address] != true || allowed["elsewhere.example"] != false || allowed["UDP"] != false ||
		allowed["UDP over IPv6"] != false {
		t.Errorf("shown are %v", allowed)
	}
	records := c.recorded(s, "net.*")
	if types := types(records); !strings.Contains(types, "net.allowed") || !strings.Contains(types, "net.denied") {
		t.Errorf("recorded are %s", types)
	}
	for _, target := range []string{"UDP", "UDP over IPv6"} {
		if !slices.ContainsFunc(records, func(r map[string]any) bool { return r["target"] == target }) {
			t.Errorf("%s is not among what is recorded: %v", target, records)
		}
	}
}

// A command that reaches a limit of its agent's cage is killed, and its result has the limit and its value. The cage
// and the run continue.
func TestLimitsOfACagedAgent(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, "{fs: [{mode: rw, path: ./src}], capabilities: [shell], limits: {memory: 64MiB, pids: 40}}")
	s := c.session()
	for _, tt := range []struct{ command, killed, note string }{
		{"head -c 1000000000 /dev/zero | tail", "oom", "limits.memory is 64MiB"},
		{"i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; wait", "pids", "limits.pids is 40"},
	} {
		outcome, result := c.does(s, "shell.bash", map[string]any{"command": tt.command, "cwd": "src"})
		if outcome != "completed" || !strings.Contains(result, `"killed":"`+tt.killed+`"`) ||
			!strings.Contains(result, tt.note) {
			t.Errorf("%s: the run %s: %s", tt.command, outcome, result)
		}
	}
	if out := c.shell(s, "echo still here"); !strings.Contains(out, "still here") {
		t.Errorf("the next command printed %q", out)
	}
}

// A cage that writes more than its limit ends together with its run. The written files stay for inspection.
func TestDiskLimitEndsTheRun(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, "{fs: [{mode: rw, path: ./src}], capabilities: [shell], limits: {disk: 8MiB}}")
	s := c.session()
	outcome, _ := c.does(s, "shell.bash", map[string]any{
		"command": "head -c 60000000 /dev/zero >big; sleep 1000", "cwd": "src",
	})
	run := c.lastRun(s)
	if outcome != "failed" || run.Error == nil || run.Error.Code != "cage_limit_reached" {
		t.Errorf("the run %s: %+v", outcome, run.Error)
	}
	if shown := frames(t, s, "run.cage"); shown[len(shown)-1]["ended"] != "disk" {
		t.Errorf("shown are %v", shown)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "src", "big")); err != nil {
		t.Error(err)
	}
}

// Cages of one project start and end in parallel: a file that one cage protects with a stub is usable in another, and
// after the last cage no trace is left.
func TestManyCagesOfOneProject(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, "{fs: [{mode: rw, path: .}], capabilities: [shell]}")
	kagedtest.Write(t, c.dir, "try.sh", "mkdir .git/hooks; touch .kaged/x; true\n")
	sessions := make([]*kagedtest.Session, 6)
	for i := range sessions {
		sessions[i] = c.session()
	}
	const rounds = 3
	for range rounds {
		runs := map[string]*kagedtest.Session{}
		for _, s := range sessions {
			runs[s.Send(t, words(t, "shell.bash", map[string]any{"command": "sh try.sh"}))] = s
		}
		for run, s := range runs {
			path := "/api/v1/sessions/" + s.ID + "/runs/" + run
			kagedtest.Eventually(t, "the run ends", func() bool {
				return kagedtest.Get[lastRun](t, c.client, path).State != "running"
			})
			if ended := kagedtest.Get[lastRun](t, c.client, path); ended.State != "completed" {
				t.Errorf("a run %s: %+v", ended.State, ended.Error)
			}
		}
	}
	for _, s := range sessions {
		c.end(s)
	}
	kagedtest.Eventually(t, "nothing is left", func() bool { return len(c.left()) == 0 })
	if _, err := os.Lstat(filepath.Join(c.dir, ".kaged", "x")); err == nil {
		t.Error("a protected folder was written to")
	}
}

// Files that a caged agent creates and that tools outside the cage would run are shown and recorded at the end of its
// run: a file with a protected name, and a repository. File tools refuse to create either.
func TestWhatACageLeavesIsTold(t *testing.T) {
	t.Parallel()
	c := cagedProject(t, "{fs: [{mode: rw, path: ./src}], capabilities: [shell]}")
	s := c.session()
	// The names are built from variables, because a command with .git in its text needs approval.
	c.shell(s, "e=envrc; touch .$e; g=git; mkdir -p deep/.$g && touch deep/.$g/HEAD")
	shown := frames(t, s, "run.cage")
	last := fmt.Sprint(shown[len(shown)-1]["found"])
	records := c.recorded(s, "cage.found")
	for _, want := range []string{filepath.Join(c.dir, "src/.envrc"), filepath.Join(c.dir, "src/deep/.git")} {
		if !strings.Contains(last, want) || len(records) != 1 || !strings.Contains(fmt.Sprint(records[0]["found"]), want) {
			t.Errorf("no %s: shown are %v, recorded are %v", want, shown, records)
		}
	}
	for _, path := range []string{"src/.mcp.json", "src/other/.git/HEAD", "src/.GIT/config"} {
		if _, result := c.does(s, "file.write", map[string]any{"path": path, "content": "x"}); !strings.Contains(result,
			`"code":"capability_denied"`) {
			t.Errorf("file.write of %s: %s", path, result)
		}
	}
}
