package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// madeByAnAgent starts a daemon with a loaded project whose agent creates one file in each run.
func madeByAnAgent(t *testing.T) (w *kagedtest.World, url string) {
	t.Helper()
	llm := fakellm.Start(t)
	runs := 0
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.Turns() > 0 {
			return fakellm.Step{fakellm.Say("Made.")}
		}
		runs++
		return fakellm.Step{fakellm.Tool("file.create",
			fmt.Sprintf(`{"path":"made-%d.txt","content":"made by an agent\n"}`, runs))}
	})
	w = kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	w.Project(t)
	w.Up(t, databaseEnv(t))
	return w, w.SignIn(t).BaseURL()
}

// changed fails the test unless a program has printed the agent's changes.
func changed(t *testing.T, out string) {
	t.Helper()
	if !strings.Contains(out, "+made by an agent") || !strings.Contains(out, "made-") {
		t.Errorf("it printed %s", out)
	}
}

// The commands of docs/howto/use-the-api.md, typed unchanged in a folder outside the repository, run an agent and print
// its changes: with curl, and with a Go program in a module of its own.
func TestTheProgramOfTheDocs(t *testing.T) {
	t.Parallel()
	const howto = "docs/howto/use-the-api.md"
	w, url := madeByAnAgent(t)
	n := w.Newcomer(t, "KAGED_URL="+url)
	curl := strings.NewReplacer(
		"http://127.0.0.1:7420", url, // the port is another
		"$PWD", w.Dir+"/wordcount",
		"tail -f events", "until grep -q run.ended events; do sleep 0.1; done", // a person looks, and goes on
	).Replace(kagedtest.Block(t, howto, "Use curl", "sh"))
	changed(t, n.Types(t, curl))
	changed(t, n.Types(t, kagedtest.Block(t, howto, "From Go", "sh")))
}

// The README's session by curl and its session with the Go client show an agent's answer.
func TestTheSessionsOfTheREADME(t *testing.T) {
	t.Parallel()
	w, url := madeByAnAgent(t)
	n := w.Newcomer(t)
	n.Types(t, "cd "+w.Dir+"/wordcount && kaged run make a file")
	token := "export KAGED_TOKEN=$(kaged token create script-$RANDOM --scope run)\n"
	here := strings.NewReplacer("http://127.0.0.1:7420", url)
	n.TypesUntil(t, token+here.Replace(kagedtest.Block(t, "README.md", "From a program", "sh")), "Made.")

	const program = `package main

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/client"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

func main() {
	ctx := context.Background()
	%s
	_ = err
}
`
	body := strings.Replace(here.Replace(kagedtest.Block(t, "README.md", "From a program", "go")), "{ ... }",
		`{ fmt.Println(frame.Type, err); if frame.Type == "run.ended" { break } }`, 1)
	kagedtest.Write(t, n.Dir, "main.go", fmt.Sprintf(program, body))
	out := n.Types(t, token+"go mod init example.com/readme\ngo mod edit -replace kaged.dev/pkg=../kaged/pkg "+
		"-replace kaged.dev/proto=../kaged/proto\ngo mod tidy\ngo run .\n")
	if !strings.Contains(out, "message.delta <nil>") || !strings.Contains(out, "run.ended <nil>") {
		t.Errorf("the program printed %s", out)
	}
}
