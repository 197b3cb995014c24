package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// shells starts a daemon with a session in which the agent has started an interactive shell in the background.
func shells(t *testing.T) (w *kagedtest.World, s *kagedtest.Session, pid string) {
	t.Helper()
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.Turns() > 0 {
			return fakellm.Step{fakellm.Say("It runs.")}
		}
		return fakellm.Step{fakellm.Tool("shell.exec", `{"background":true,"terminal":true,"command":"./serve.sh"}`)}
	})
	w = kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	file := kagedtest.Read(t, dir, ".kaged/project.yaml")
	kagedtest.Write(t, dir, ".kaged/project.yaml", strings.Replace(file, "shell.bash", "shell.*", 1))
	kagedtest.Write(t, dir, "serve.sh", "#!/bin/sh\necho ready\nPS1= exec sh\n")
	if err := os.Chmod(filepath.Join(dir, "serve.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.Up(t, databaseEnv(t))
	s = kagedtest.Open(t, w.SignIn(t), dir)
	if outcome := s.Run(t, "start a shell"); outcome != "completed" {
		t.Fatalf("the run ended %s", outcome)
	}
	now := kagedtest.Get[struct {
		Processes []struct {
			PID                  int64
			Background, Terminal bool
		}
	}](t, s.Client, "/api/v1/sessions/"+s.ID+"/processes")
	if len(now.Processes) != 1 || !now.Processes[0].Background || !now.Processes[0].Terminal {
		t.Fatalf("there run %+v", now)
	}
	return w, s, fmt.Sprint(now.Processes[0].PID)
}

// awaits waits until a terminal shows a text.
func awaits(t *testing.T, x *kagedtest.Terminal, text string) {
	t.Helper()
	what := fmt.Sprintf("the terminal shows %q", text)
	kagedtest.Eventually(t, what, func() bool { return strings.Contains(x.Shown.String(), text) })
}

// A terminal connects to an agent's shell while another client holds the session. It shows the kept output, accepts
// input, and sets the shell's size, also when its own size changes. The escape key disconnects and restores the
// terminal, and the shell continues. Another terminal can connect, two can share the shell, and the shell's exit ends
// both. The input is recorded.
func TestATerminalJoinsAShell(t *testing.T) {
	t.Parallel()
	w, s, pid := shells(t)
	join := func(args ...string) *kagedtest.Terminal {
		return kagedtest.OnTerminal(t, "kaged", w.Env, append([]string{"session", "attach", "--pty", pid}, args...)...)
	}
	one := join(s.ID)
	awaits(t, one, "ready")
	raw := one.Modes(t)
	one.Type(t, "stty size; echo one-$((1+1))\r")
	awaits(t, one, "40 200\r\none-2")
	one.Resize(t, 100, 30)
	one.Type(t, "while ! stty size | grep -q '30 100'; do sleep 0.05; done; echo two-$((1+2))\r")
	awaits(t, one, "two-3")
	one.Type(t, "\x1d")
	if code := one.Wait(t); code != 0 || !strings.Contains(one.Shown.String(), "detached from process "+pid) {
		t.Errorf("left with %d, %q", code, one.Shown.String())
	}
	if one.Modes(t) == raw {
		t.Error("the terminal is still as it was while it showed the shell")
	}
	two, three := join("--escape", "ctrl-a"), join()
	awaits(t, two, "two-3")
	awaits(t, three, "two-3")
	two.Type(t, "echo three-$((1+3))\r")
	awaits(t, two, "three-4")
	awaits(t, three, "three-4")
	three.Type(t, "exit 5\r")
	for _, x := range []*kagedtest.Terminal{two, three} {
		if code := x.Wait(t); code != 0 || !strings.Contains(x.Shown.String(), "process "+pid+" exited with 5") {
			t.Errorf("ended with %d, %q", code, x.Shown.String())
		}
	}
	four := join()
	if code := four.Wait(t); code != 1 || !strings.Contains(four.Shown.String(), "No background process of your") {
		t.Errorf("after its end: %d, %q", code, four.Shown.String())
	}
	type page struct {
		Items []struct{ Payload struct{ Input string } }
	}
	var typed []string
	const records = "/api/v1/audit?event_type=process.input&session="
	for _, item := range kagedtest.Get[page](t, s.Client, records+s.ID).Items {
		typed = append(typed, item.Payload.Input)
	}
	all := strings.Join(typed, "\n")
	if !strings.Contains(all, `exit 5\r`) || !strings.Contains(all, `echo three-$((1+3))\r`) {
		t.Errorf("recorded %q", typed)
	}
	s.Run(t, "go on") // the client that holds the session is still attached
}

// Every end of kaged restores the terminal: a signal, or the end of the session.
func TestATerminalIsGivenBack(t *testing.T) {
	t.Parallel()
	w, s, pid := shells(t)
	join := func() *kagedtest.Terminal {
		x := kagedtest.OnTerminal(t, "kaged", w.Env, "session", "attach", "--pty", pid)
		awaits(t, x, "ready")
		return x
	}
	plain := kagedtest.OnTerminal(t, "kaged", w.Env, "session", "list")
	plain.Wait(t)
	cooked := plain.Modes(t)
	one := join()
	if one.Modes(t) == cooked {
		t.Error("the terminal is not raw while it shows a process")
	}
	one.Signal(syscall.SIGTERM)
	if code := one.Wait(t); code != 130 || one.Modes(t) != cooked {
		t.Errorf("SIGTERM: %d, %q, modes %v", code, one.Shown.String(), one.Modes(t) == cooked)
	}
	two := join()
	end := "/api/v1/sessions/" + s.ID + "?confirm=true"
	if err := s.Client.Do(t.Context(), http.MethodDelete, end, nil, nil); err != nil {
		t.Fatal(err)
	}
	code := two.Wait(t)
	if code != 0 || !strings.Contains(two.Shown.String(), "was ended: owner_ended") || two.Modes(t) != cooked {
		t.Errorf("the end of the session: %d, %q", code, two.Shown.String())
	}
}

// A line typed at a terminal steers the active run: the agent reads it with the results of its step. While a question
// is open, it gets the input; after it, lines steer again.
func TestTypingSteersARun(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	first, third := fakellm.NewGate(), fakellm.NewGate()
	llm.Script([]fakellm.Step{
		{fakellm.Wait(first), fakellm.Tool("shell.bash", `{"command":"echo one"}`)},
		{fakellm.GotBody("Use tabs."), fakellm.Tool("shell.bash", `{"command":"git push --force nowhere main"}`)},
		{fakellm.Wait(third), fakellm.Tool("shell.bash", `{"command":"echo two"}`)},
		{fakellm.GotBody("And stop."), fakellm.Say("Stopped.")},
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	w.Up(t, databaseEnv(t))
	x := kagedtest.OnTerminal(t, "kaged", w.Env, "run", "--project", dir, "indent it")
	awaits(t, x, "type a line to steer the run")
	x.Type(t, "Use tabs.\r")
	awaits(t, x, "» Use tabs. (waits for the next step)")
	first.Open()
	awaits(t, x, "Do it? [y/N")
	x.Type(t, "n\r")
	awaits(t, x, "! denied")
	x.Type(t, "And stop.\r")
	awaits(t, x, "» And stop. (waits for the next step)")
	third.Open()
	if code := x.Wait(t); code != 0 || !strings.Contains(x.Shown.String(), "Stopped.") {
		t.Errorf("it ended with %d, %q", code, x.Shown.String())
	}
}
