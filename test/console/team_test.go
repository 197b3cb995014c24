package console_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

const teamPrices = `
[[providers.fake.models]]
id = "claude-sonnet-4-5"
context_window = 200000

[providers.fake.models.price]
input = 3.0
output = 15.0
`

const teamFile = `version: 1
project: wordcount
primary:
  model: smart-generalist
  system_prompt: ./lead.md
  cage: {fs: [{mode: rw, path: "project:/"}], capabilities: [shell]}
  subagents:
    scout:
      description: Finds the cause of a fault, and changes nothing.
      model: smart-generalist
      system_prompt: ./scout.md
      tools: {"file.read": {enabled: true}, "search.*": {enabled: true}}
      cage: {fs: [{mode: ro, path: "project:/"}]}
    smith:
      description: Makes a change and runs the tests.
      model: smart-generalist
      system_prompt: ./smith.md
      tools: {"file.*": {enabled: true}, "edit.*": {enabled: true}, "shell.bash": {enabled: true}}
      cage: {fs: [{mode: rw, path: "project:/"}], capabilities: [shell]}
`

// teamSteps are the turns of each agent.
var teamSteps = map[string][]fakellm.Step{
	"lead": {
		{
			fakellm.Say("`Top` counts words together with their punctuation. The scout finds the place."),
			fakellm.Tool("agent-scout", `{"prompt":"TestTop fails. Find the line that is wrong, and say why."}`),
		},
		{
			fakellm.Say("The smith mends it."),
			fakellm.Tool("agent-smith",
				`{"prompt":"Let normalize strip all but letters and digits, then run the tests."}`),
		},
		{fakellm.Say("Done.")},
	},
	"scout": {
		{fakellm.Say("I look for it."), fakellm.Tool("search.grep", `{"pattern":"normalize","output_mode":"content"}`)},
		{fakellm.Say("`normalize` strips only full stops and commas: `strings.Trim(field, \".,\")` in wordcount.go.")},
	},
	"smith": {
		{fakellm.Tool("file.read", `{"path":"wordcount.go"}`)},
		{fakellm.Tool("edit.text", `{"path":"wordcount.go","old_string":"strings.Trim(field, \".,\")",`+
			`"new_string":"strings.TrimFunc(field, unicode.IsPunct)"}`)},
		{
			fakellm.Say("The change stands. I remove the old copy of the file."),
			fakellm.Tool("shell.bash", `{"command":"unlink wordcount.go.orig"}`),
		},
		{fakellm.Say("Done.")},
	},
}

// The page of a session with a team shows each agent with its state and cost, and the question of the agent that
// waits. The picture of the README is taken here.
func TestATeamAtWork(t *testing.T) {
	w := start(t, func(r *fakellm.Request) fakellm.Step {
		_, role, _ := strings.Cut(strings.TrimSpace(r.System), "You are the ")
		role, _, _ = strings.Cut(role, ".")
		steps := teamSteps[role]
		used := fakellm.Usage(llm.Usage{Input: 2400 + 900*int64(r.Turns()), Output: 120})
		return append(fakellm.Step{used}, steps[min(r.Turns(), len(steps)-1)]...)
	}, teamPrices)
	for role := range teamSteps {
		kagedtest.Write(t, w.dir, role+".md", "You are the "+role+".\n")
	}
	kagedtest.Write(t, w.dir, "wordcount.go.orig", "package wordcount\n")
	kagedtest.Write(t, w.dir, ".kaged/project.yaml", teamFile)
	id := w.session(t, "repair the word count", "TestTop fails. Find out why and mend it.")
	b := newBrowser(t, w)
	b.size(t, 1360, 860, "light")
	b.open(t, w, "/sessions/"+id)
	b.until(t, "the smith asks, and the page is live", `document.body.innerText.includes("unlink wordcount.go.orig") &&
		document.querySelector(".ask") && document.body.innerText.includes("live")`)
	b.until(t, "each agent with its state and cost", `(list => list.length === 3 && list.every(one => one.includes("$")) &&
		list[0].includes("caged") && list[1].includes("completed") && list[2].includes("asks you"))(
			[...document.querySelectorAll(".tree .agent")].map(one => one.innerText))`)
	b.picture(t, "team")
	b.takesAnAnswer(t)
}
