package console_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A program with @kaged/client signs in with a token, starts a run and follows it. kaged is killed meanwhile, and
// started again after a failed connection. The program receives every frame once and in order, and its text equals the
// stored text.
func TestTypeScriptClient(t *testing.T) {
	gate := fakellm.NewGate()
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		return fakellm.Step{fakellm.Say("one "), fakellm.Wait(gate), fakellm.Say("two "), fakellm.Say("three")}
	})
	w.session(t, "other", "")
	var token struct{ Token string }
	w.do(t, http.MethodPost, "/api/v1/tokens", map[string]any{"name": "ts", "scope": "admin"}, &token)
	cmd := exec.CommandContext(t.Context(), "node", "--no-warnings", "--experimental-websocket",
		"testdata/follow.mjs")
	cmd.Env = append(cmd.Environ(), "KAGED_URL=http://"+w.listen, "KAGED_TOKEN="+token.Token)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("node: %v", err)
	}
	var got struct {
		Text, Stored, Refused string
		Seqs                  []int
		States                []string
	}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		switch line := sc.Text(); {
		case line == "one":
			w.daemon.Kill()
			<-w.daemon.Done()
		case line == "away":
			gate.Open()
			w.up(t)
		case strings.HasPrefix(line, "{"):
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.String())
	}
	for i, seq := range got.Seqs {
		if seq != i+1 {
			t.Fatalf("frames of output came as %v", got.Seqs)
		}
	}
	if len(got.Seqs) == 0 || !strings.HasSuffix(got.Stored, "three") || got.Text != got.Stored {
		t.Errorf("read %q, stored is %q", got.Text, got.Stored)
	}
	if got.Refused != "not_found" {
		t.Errorf("the refusal's code is %q", got.Refused)
	}
	if n := strings.Count(strings.Join(got.States, " "), "live"); n < 2 {
		t.Errorf("the socket stood at %v", got.States)
	}
}

// A program with @kaged/client shows a background process of an agent: it reads the kept output, sets the size, types,
// loses its connection, and types again. It receives every byte once, and the exit code.
func TestTypeScriptTerminal(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if len(r.Results()) > 0 {
			return fakellm.Step{fakellm.Say("It runs.")}
		}
		return fakellm.Step{fakellm.Tool("shell.exec",
			`{"command":"./serve.sh","background":true,"terminal":true}`)}
	})
	file := kagedtest.Read(t, w.dir, ".kaged/project.yaml")
	kagedtest.Write(t, w.dir, ".kaged/project.yaml", strings.Replace(file, "shell.bash", "shell.*", 1))
	kagedtest.Write(t, w.dir, "serve.sh", "#!/bin/sh\nstty -echo\necho ready\nPS1= exec sh\n")
	if err := os.Chmod(filepath.Join(w.dir, "serve.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	session := w.session(t, "shell", "start a shell")
	var token struct{ Token string }
	w.do(t, http.MethodPost, "/api/v1/tokens", map[string]any{"name": "ts", "scope": "run"}, &token)
	kagedtest.Eventually(t, "the shell runs", func() bool {
		var now struct{ Processes []struct{ Background bool } }
		w.do(t, http.MethodGet, "/api/v1/sessions/"+session+"/processes", nil, &now)
		return len(now.Processes) == 1 && now.Processes[0].Background
	})
	cmd := exec.CommandContext(t.Context(), "node", "--no-warnings", "--experimental-websocket",
		"testdata/terminal.mjs")
	cmd.Env = append(cmd.Environ(), "KAGED_URL=http://"+w.listen, "KAGED_TOKEN="+token.Token, "SESSION="+session)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.String())
	}
	var got struct {
		Shown, Replayed, Refused string
		States                   []string
		Exit                     int
		Offset                   int
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	for _, want := range []string{"ready\r\n", "30 100\r\n", "first-2\r\n", "second-3\r\n"} {
		if strings.Count(got.Shown, want) != 1 {
			t.Errorf("%q is shown %d times in %q", want, strings.Count(got.Shown, want), got.Shown)
		}
	}
	if got.Exit != 7 || got.Offset != len(got.Shown) || got.Refused != "" ||
		!strings.HasPrefix(got.Shown, got.Replayed) {
		t.Errorf("got %+v", got)
	}
	if n := strings.Count(strings.Join(got.States, " "), "live"); n != 2 {
		t.Errorf("the socket stood at %v", got.States)
	}
}

// The commands of docs/howto/use-the-api.md, typed unchanged in a folder outside the repository, install @kaged/client,
// run an agent and print its changes. The README's session compiles and prints the agent's answer.
func TestTheScriptOfTheDocs(t *testing.T) {
	runs := 0
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if r.Turns() > 0 {
			return fakellm.Step{fakellm.Say("Made.")}
		}
		runs++
		return fakellm.Step{fakellm.Tool("file.create",
			fmt.Sprintf(`{"path":"made-%d.txt","content":"made by an agent\n"}`, runs))}
	})
	w.do(t, http.MethodPost, "/api/v1/projects/load", map[string]any{"path": w.dir}, nil)
	var token struct{ Token string }
	w.do(t, http.MethodPost, "/api/v1/tokens", map[string]any{"name": "diff", "scope": "run"}, &token)
	n := w.Newcomer(t, "KAGED_URL=http://"+w.listen)
	out := n.Types(t, kagedtest.Block(t, "docs/howto/use-the-api.md", "From TypeScript", "sh"))
	if !strings.Contains(out, "+made by an agent") || !strings.Contains(out, "made-1.txt") {
		t.Errorf("the script printed %s", out)
	}
	session := strings.ReplaceAll(kagedtest.Block(t, "README.md", "From a program", "ts"), "http://127.0.0.1:7420",
		"http://"+w.listen)
	const head = "import { Client } from \"@kaged/client\";\ndeclare const process: any;\n"
	kagedtest.Write(t, n.Dir, "readme.mts", head+session)
	n.TypesUntil(t, `../kaged/clients/ts/node_modules/.bin/tsc --strict --module nodenext --target es2022 readme.mts
		KAGED_TOKEN=$(kaged token create readme --scope run) node --no-warnings --experimental-websocket readme.mjs`, "Made.")
	// The log of the project has the events while it is followed.
	logs := kagedtest.Command(t, "kaged", kagedtest.Environ("KAGED_TOKEN="+token.Token), "logs", "wordcount", "--follow",
		"--source", "session", "--url", "http://"+w.listen)
	for _, want := range []string{"Session created.", "Run started.", "Run completed."} {
		if line := logs.Line(t); !strings.Contains(line, "info   session   "+want) {
			t.Errorf("kaged logs printed %q, want %s", line, want)
		}
	}
}
