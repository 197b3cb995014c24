package console_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// The question of an agent three levels below the root stands in the inbox and in its session. The tree of agents says
// at each agent above who asks. The agent's page shows its caller's prompt, its work and the question; the answer there
// lets all of them finish.
func TestAnAgentFarBelowAsks(t *testing.T) {
	callee := map[string]string{"lead": "scout", "scout": "smith", "smith": "apprentice"}
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		_, role, _ := strings.Cut(strings.TrimSpace(r.System), "You are the ")
		role, _, _ = strings.Cut(role, ".")
		switch {
		case r.Turns() > 0:
			return fakellm.Step{fakellm.Say("The " + role + " is done.")}
		case callee[role] != "":
			return fakellm.Step{fakellm.Tool("agent-"+callee[role], `{"prompt":"The `+role+` wants it done."}`)}
		}
		return fakellm.Step{fakellm.Say("I push."), fakellm.Tool("shell.bash",
			`{"command":"git push --force origin main"}`)}
	})
	file := "version: 1\nproject: wordcount\nprimary:\n  model: smart-generalist\n  system_prompt: ./lead.md\n" +
		"  cage: disabled\n"
	for depth, who := range []string{"lead", "scout", "smith", "apprentice"} {
		kagedtest.Write(t, w.dir, who+".md", "You are the "+who+".\n")
		if depth == 0 {
			continue
		}
		in := strings.Repeat("    ", depth)
		file += strings.TrimPrefix(in, "  ") + "subagents:\n" + in + who + ":\n" + in + "  model: smart-generalist\n" +
			in + "  system_prompt: ./" + who + ".md\n" + in + "  tools: {shell.bash: {enabled: true}}\n" +
			in + "  cage: disabled\n"
	}
	kagedtest.Write(t, w.dir, ".kaged/project.yaml", file)
	id := w.session(t, "far below", "begin")
	b := newBrowser(t, w)
	b.until(t, "the inbox asks",
		`document.querySelector(".ask").innerText.includes("scout / smith / apprentice")`)
	b.open(t, w, "/sessions/"+id)
	b.until(t, "the tree says who asks", `(list => list.length === 4 && list[3].includes("asks you") &&
		[1, 2].every(i => list[i].includes("apprentice asks you")))(
			[...document.querySelectorAll(".tree .agent")].map(one => one.innerText))`)
	b.run(t, "enter it", click(`//ul[@class="tree"]//span[@class="agent-name" and .="apprentice"]`))
	b.until(t, "its prompt and its work", `["The smith wants it done.", "I push.", "git push --force origin main"]
		.every(one => document.querySelector(".rows").innerText.includes(one))`)
	b.takesAnAnswer(t)
	b.run(t, "allow", click(".ask .allow"))
	b.shows(t, "The apprentice is done.")
	b.run(t, "up", click(`//nav[@aria-label="Agent"]//button[.="primary"]`))
	b.shows(t, "The lead is done.")
}
