package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// debugFrame holds the fields of a debug session's frames that the test reads.
type debugFrame struct {
	ID            string `json:"debug_session_id"`
	StoppedReason string `json:"stopped_reason"`
	Reason        string
	Location      struct {
		Path string
		Line int
	}
	Source []struct {
		Line int
		Text string
	}
	Locals []struct{ Name, Value string }
	Moved  struct {
		Action     string
		OperatorID string `json:"operator_id"`
	}
}

// The project's agent debugs. Its test waits for a file, and then computes a mean that leaves out the first number.
const (
	debugProject = `version: 1
project: mean
primary:
  model: smart-generalist
  system_prompt: ./prompt.md
  tools: {"*": {enabled: false}, debug: {enabled: true}}
  cage: disabled
`
	debugMean = `package mean

import (
	"os"
	"time"
)

func Mean(list []int) int {
	sum := 0
	for _, n := range list[1:] {
		sum += n
	}
	return sum / len(list)
}

func await(name string) {
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
`
	debugMeanTest = `package mean

import "testing"

func TestMean(t *testing.T) {
	await("go")
	if got := Mean([]int{3, 4, 5}); got != 4 {
		t.Errorf("the mean is %d", got)
	}
}
`
)

// debugged creates the project and returns its folder.
func debugged(t *testing.T, w *kagedtest.World) string {
	t.Helper()
	dir := filepath.Join(w.Dir, "mean")
	for path, content := range map[string]string{
		".kaged/project.yaml": debugProject, "prompt.md": "You debug.", "go.mod": "module example.com/mean\n\ngo 1.24\n",
		"mean.go": debugMean, "mean_test.go": debugMeanTest,
	} {
		kagedtest.Write(t, dir, path, content)
	}
	return dir
}

// debugWatch reads the frames of a session by type, because the order between channels is not defined.
type debugWatch struct {
	*kagedtest.Session
	read map[string]int // by type, the number of frames already read
}

// take reads the next frame of a type into a value.
func (d *debugWatch) take(t *testing.T, kind string, into any) {
	t.Helper()
	for i := 0; ; {
		for ; i < len(d.Frames); i++ {
			if i >= d.read[kind] && d.Frames[i].Type == kind {
				d.read[kind] = i + 1
				kagedtest.Payload(t, d.Frames[i], into)
				return
			}
		}
		d.Next(t)
	}
}

func (d *debugWatch) next(t *testing.T, kind string) (f debugFrame) {
	t.Helper()
	d.take(t, kind, &f)
	return f
}

// told expects parts in the agent's next tool result.
func (d *debugWatch) told(t *testing.T, parts ...string) {
	t.Helper()
	var result struct{ Output string }
	d.take(t, "message.tool_result", &result)
	for _, part := range parts {
		if !strings.Contains(result.Output, part) {
			t.Errorf("the agent is told %s, want %s", result.Output, part)
		}
	}
}

// An agent finds a wrong value in a Go test by debugging it. A person watches over the socket, pauses the program once,
// inspects it in a terminal and continues it. The agent's next result has these moves, and no process is left.
func TestAPersonWatchesAnAgentDebug(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	letGo := fakellm.NewGate()
	debug := func(input string) fakellm.Action { return fakellm.Tool("debug", input) }
	llm.Script([]fakellm.Step{
		{debug(`{"action":"launch","runtime":"go","mode":"test","script":".","args":["-test.run=TestMean"],` +
			`"env":{"MARK":"debugged"}}`)},
		{debug(`{"action":"set_breakpoint","path":"mean.go","line":11}`)},
		{debug(`{"action":"continue","timeout":300000}`)},
		{fakellm.Wait(letGo), debug(`{"action":"continue","timeout":300000}`)},
		{debug(`{"action":"variables"}`)},
		{debug(`{"action":"evaluate","expression":"list[0]"}`)},
		{debug(`{"action":"disconnect"}`)},
		{fakellm.Say("The loop leaves out the first number.")},
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := debugged(t, w)
	w.Up(t, nil)
	s := kagedtest.Open(t, w.SignIn(t), dir)
	run := s.Send(t, "Why is the mean wrong?")

	watched := &debugWatch{Session: s, read: map[string]int{}}
	watched.told(t, `"stopped_reason":"entry"`)
	watched.told(t, `"verified":true`)
	for f := watched.next(t, "debug.session"); f.Moved.Action != "continue"; f = watched.next(t, "debug.session") {
		if f.Moved.OperatorID != "" {
			t.Errorf("the agent lets it run: %+v", f)
		}
	}
	api := "/api/v1/sessions/" + s.ID + "/debug"
	kagedtest.Post[struct{}](t, s.Client, api, map[string]any{"action": "pause", "timeout": 30_000})
	paused := watched.next(t, "debug.stopped")
	for paused.StoppedReason == "entry" { // an agent that continues at once may skip this frame
		paused = watched.next(t, "debug.stopped")
	}
	if !strings.HasPrefix(paused.ID, "dap_") || paused.StoppedReason != "pause" || paused.Moved.Action != "pause" ||
		paused.Moved.OperatorID == "" {
		t.Errorf("a person pauses it: %+v", paused)
	}
	person := paused.Moved.OperatorID
	watched.told(t, `"status":"stopped"`, `"stopped_reason":"pause"`, `"moved_by":[{"action":"pause","by":"`+person+`"}]`)

	shown, code := kagedtest.Command(t, "kaged", w.Env, "debug", s.ID, "--once").Rest(t)
	if code != 0 || !strings.Contains(shown, "go ., primary: stopped (pause), pause by "+person) ||
		!strings.Contains(shown, "breakpoints\n  1  mean.go:11") {
		t.Errorf("exit %d, the terminal shows %s", code, shown)
	}
	kagedtest.Write(t, dir, "go", "")
	shown, code = kagedtest.Command(t, "kaged", w.Env, "debug", s.ID, "--continue", "--wait", "30s").Rest(t)
	if code != 0 || !strings.Contains(shown, "stopped (breakpoint 1), continue by "+person) ||
		!strings.Contains(shown, ">    11          sum += n") || !strings.Contains(shown, "sum = int 0") {
		t.Errorf("exit %d, the terminal shows %s", code, shown)
	}
	f := watched.next(t, "debug.stopped")
	if f.Location.Path != "mean.go" || f.Location.Line != 11 || len(f.Source) != 7 || len(f.Locals) < 2 {
		t.Errorf("at the breakpoint: %+v", f)
	}
	letGo.Open()
	watched.told(t, `"moved_by":[{"action":"continue","by":"`+person+`"}]`, `"stopped_reason":"breakpoint"`)
	watched.told(t, `"name":"n","value":"5","type":"int"`, `"name":"sum","value":"4","type":"int"`)
	watched.told(t, `"result":"3"`)
	watched.told(t, `"debuggee_terminated":true`)
	if f := watched.next(t, "debug.ended"); f.Reason != "disconnect" || f.ID != paused.ID {
		t.Errorf("at the end: %+v", f)
	}
	watched.after(t, w, run, paused.ID)
}

// after checks that the run is complete, and that no process of the debugged program is left.
func (d *debugWatch) after(t *testing.T, w *kagedtest.World, run, debugged string) {
	t.Helper()
	var ended struct {
		RunID   string `json:"run_id"`
		Outcome string
	}
	d.take(t, "run.ended", &ended)
	if ended.RunID != run || ended.Outcome != "completed" {
		t.Errorf("the run %+v", ended)
	}
	shown, code := kagedtest.Command(t, "kaged", w.Env, "debug", d.ID).Rest(t)
	if code != 0 || shown != "No agent of the session debugs a program.\n" {
		t.Errorf("exit %d, after the run the terminal shows %q", code, shown)
	}
	api := "/api/v1/sessions/" + d.ID + "/debug"
	if err := d.Client.Do(t.Context(), http.MethodPost, api, map[string]any{"action": "pause"}, nil); err == nil ||
		!strings.Contains(err.Error(), "No agent of the session debugs") {
		t.Errorf("a pause after the run: %v", err)
	}
	kagedtest.Eventually(t, "the debugged program is gone", func() bool {
		return len(kagedtest.Running(t, "MARK=debugged")) == 0
	})
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "kaged-debug-"+debugged+"*")); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v", left)
	}
}
