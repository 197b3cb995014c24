package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// The approval of a caged command names the hosts that the cage can reach, and what the agent's commands have tried on
// the network before, with the outcome of each.
func TestNetworkOnTheCard(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	t.Cleanup(web.Close)
	address := strings.TrimPrefix(web.URL, "http://")
	host, port, _ := strings.Cut(address, ":")
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		switch r.Turns() {
		case 0:
			return fakellm.Step{fakellm.Tool("shell.bash", fmt.Sprintf(
				`{"command":"bash -c 'exec 3<>/dev/tcp/%s/%s; exec 4<>/dev/tcp/elsewhere.example/443'; true"}`, host, port))}
		case 1:
			return fakellm.Step{fakellm.Tool("shell.bash", `{"command":"git push --force origin main"}`)}
		}
		return fakellm.Step{fakellm.Say("All done.")}
	})
	file := kagedtest.Read(t, w.dir, ".kaged/project.yaml")
	kagedtest.Write(t, w.dir, ".kaged/project.yaml", strings.Replace(file, "cage: disabled",
		`cage: {fs: [{mode: rw, path: .}], capabilities: [shell], net: {allow: ["`+address+`"]}}`, 1))
	id := w.session(t, "push", "push it")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.until(t, "the card", `document.querySelector(".ask-network .tried")`)
	text := eval[string](t, b, `document.querySelector(".ask-network").innerText`)
	for _, want := range []string{"reaches only " + address, "1 let through", "refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("the card has no %q: %s", want, text)
		}
	}
	eval[bool](t, b, `(document.querySelector(".tried").open = true)`)
	b.shows(t, "elsewhere.example")
	b.picture(t, "ask-network")
	var page struct {
		Items []struct{ Subject struct{ Network []string } }
	}
	w.do(t, http.MethodGet, "/api/v1/sessions/"+id+"/approvals", nil, &page)
	if len(page.Items) != 1 || len(page.Items[0].Subject.Network) != 1 || page.Items[0].Subject.Network[0] != address {
		t.Errorf("the approvals are %v", page)
	}
}

// While a run works, the session shows the cost of its finished model calls, and so does the tree of agents.
func TestCostOfARunAtWork(t *testing.T) {
	gate := fakellm.NewGate()
	t.Cleanup(gate.Open)
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		if r.Turns() < 2 {
			return fakellm.Step{
				fakellm.Usage(llm.Usage{Input: 100_000, Output: 2000}), fakellm.Tool("file.read", `{"path":"go.mod"}`),
			}
		}
		return fakellm.Step{fakellm.Say("Nearly."), fakellm.Wait(gate)}
	})
	id := w.session(t, "dear", "read it")
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, "Nearly.")
	dollars := `Number(/\$(\d+\.\d\d)/.exec(document.querySelector(%q).innerText)?.[1] ?? 0) >= 0.5`
	b.until(t, "the header shows the cost", fmt.Sprintf(dollars, ".session-top .cost"))
	b.until(t, "the tree shows the cost", fmt.Sprintf(dollars, ".agents .agent-side"))
	b.until(t, "it works", `document.querySelector("button.stop")`)
	b.shows(t, "including the current run")
}
