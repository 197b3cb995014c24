package e2e_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// leftFor is the time limit, on a [kagedtest.Clock], for the processes of a language server after the end of what
// needed them.
const leftFor = 2 * time.Second

// deafServer is a configuration with a language server that starts a process; both ignore SIGTERM.
const deafServer = "\n[lsp.servers.go]\ncommand = [\"/bin/sh\", \"-c\", \"trap '' TERM; sleep 1000 & exec gopls\"]\n"

// languageServers returns the language servers that run for a project.
func languageServers(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, p := range kagedtest.Running(t, dir) {
		if strings.HasSuffix(p, " gopls ") {
			found = append(found, p)
		}
	}
	return found
}

// symbols is a model that asks for the symbols of a file.
func symbols(t *testing.T) *fakellm.Server {
	t.Helper()
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if answered(r) {
			return fakellm.Step{fakellm.GotResult(`"name":"Count"`), fakellm.Say("I see.")}
		}
		return fakellm.Step{fakellm.Tool("code.lsp", `{"action":"symbols","path":"wordcount.go"}`)}
	})
	return llm
}

// withSymbols creates a project with the tool code.lsp for its agent. It returns the folder.
func withSymbols(t *testing.T, w *kagedtest.World) string {
	t.Helper()
	dir := w.Project(t)
	project := kagedtest.Read(t, dir, ".kaged/project.yaml")
	kagedtest.Write(t, dir, ".kaged/project.yaml", project+"    code.lsp: {enabled: true}\n")
	return dir
}

// allEnd fails the test unless the processes of a project's language server end within leftFor of the return of end.
func allEnd(t *testing.T, dir string, end func()) {
	t.Helper()
	processes := kagedtest.Running(t, dir)
	if len(processes) < 2 || len(languageServers(t, dir)) == 0 {
		t.Fatalf("the processes are %q, want a language server and the process that it has started", processes)
	}
	watched := map[string]int{}
	for _, p := range processes {
		id, _, _ := strings.Cut(p, " ")
		pid, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		watched[p] = fd
	}
	end()
	clock := kagedtest.StartClock()
	for p, fd := range watched {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10)
			if errors.Is(err, unix.EINTR) || n == 0 && clock.Within(leftFor) {
				continue
			}
			if n != 1 {
				t.Errorf("process %q is left after %v: %v", p, leftFor, err)
			}
			break
		}
	}
	if left := kagedtest.Running(t, dir); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// kill -9 of a service that needs a language server, or that runs it, ends the server and the processes that it has
// started within 2 s, although they ignore SIGTERM. The next query starts a new server.
func TestLanguageServersEndWithTheServicesThatNeedThem(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"harness", "tool-runner", "lsp-pool", "session-manager", "sandbox-supervisor"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			c := startConfigured(t, kagedtest.FakeModels(symbols(t), "anthropic")+deafServer)
			dir := withSymbols(t, c.World)
			s := kagedtest.Open(t, c.SignIn(t), dir)
			if outcome := s.Run(t, "look"); outcome != "completed" {
				t.Fatalf("the run %s", outcome)
			}
			before := languageServers(t, dir)
			allEnd(t, dir, func() {
				c.processes[victim].Kill()
				<-c.processes[victim].Done()
			})

			c.start(t, victim)
			c.ready(t)
			kagedtest.Eventually(t, "the pool can be asked", func() bool {
				return s.Client.Do(t.Context(), http.MethodGet, "/api/v1/language-servers", nil, nil) == nil
			})
			if outcome := s.Run(t, "look again"); outcome != "completed" {
				t.Fatalf("the next run %s", outcome)
			}
			if after := languageServers(t, dir); len(after) == 0 || slices.Contains(after, before[0]) {
				t.Errorf("language servers %v, before %v", after, before)
			}
		})
	}
}

// The language servers of a project end within 2 s of the project's removal and of the daemon's end, by SIGTERM and
// kill -9. They outlive a session, because the next one of the project uses them.
func TestLanguageServersEndWithTheirProjectAndDaemon(t *testing.T) {
	t.Parallel()
	type world struct {
		*kagedtest.Daemon
		*kagedtest.Session
	}
	call := func(t *testing.T, w world, path string) {
		t.Helper()
		if err := w.Client.Do(t.Context(), http.MethodDelete, path, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, end := range map[string]func(t *testing.T, w world){
		"project": func(t *testing.T, w world) { call(t, w, "/api/v1/projects/"+w.Project+"?confirm=true") },
		"SIGTERM": func(t *testing.T, w world) {
			w.Signal(syscall.SIGTERM)
			<-w.Done()
		},
		"SIGKILL": func(_ *testing.T, w world) {
			w.Kill()
			<-w.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kagedtest.NewWorld(t, kagedtest.FakeModels(symbols(t), "anthropic")+deafServer)
			dir := withSymbols(t, k)
			w := world{k.Up(t, databaseEnv(t)), nil}
			w.Session = kagedtest.Open(t, k.SignIn(t), dir)
			if outcome := w.Run(t, "look"); outcome != "completed" {
				t.Fatalf("the run %s", outcome)
			}
			call(t, w, "/api/v1/sessions/"+w.ID+"?confirm=true")
			allEnd(t, dir, func() { end(t, w) })
		})
	}
}
