package e2e_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A debugged program that takes more memory than its agent's cage allows is killed. The agent gets the limit that it
// reached.
func TestDebuggedProgramIsHeldToMemory(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	debug := func(input string) fakellm.Action { return fakellm.Tool("debug", input) }
	llm.Script([]fakellm.Step{
		{debug(`{"action":"launch","runtime":"go","script":"."}`)},
		{debug(`{"action":"continue","timeout":300000}`)},
		{fakellm.Say("It takes too much memory.")},
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := debugged(t, w)
	kagedtest.Write(t, dir, ".kaged/project.yaml", strings.Replace(debugProject, "cage: disabled",
		"cage: {fs: [{mode: rw, path: .}], capabilities: [exec], seccomp: relaxed, limits: {memory: 512MiB}}", 1))
	kagedtest.Write(t, dir, "mean_test.go", "package main\n")
	kagedtest.Write(t, dir, "mean.go", `package main

import "fmt"

var kept [][]byte

func main() {
	for range 4096 {
		b := make([]byte, 1<<20)
		for j := 0; j < len(b); j += 4096 {
			b[j] = 1
		}
		kept = append(kept, b)
	}
	fmt.Println("kept", len(kept))
}
`)
	w.Up(t, nil)
	s := kagedtest.Open(t, w.SignIn(t), dir)
	if outcome := s.Run(t, "Why does it take so much memory?"); outcome != "completed" {
		t.Errorf("the run %s, want completed", outcome)
	}
	result := lastResult(t, s)
	for _, want := range []string{"dap_session_ended", "limits.memory is 512MiB"} {
		if !strings.Contains(result, want) {
			t.Errorf("got %s, want %q in it", result, want)
		}
	}
}

// lastResult returns the result of the last tool call of s.
func lastResult(t *testing.T, s *kagedtest.Session) string {
	t.Helper()
	var p struct{ Output string }
	for _, f := range s.Frames {
		if f.Type == "message.tool_result" {
			kagedtest.Payload(t, f, &p)
		}
	}
	return p.Output
}
