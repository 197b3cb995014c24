package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A run that reads more than its model's context window holds continues to its end with both wire formats: a note
// replaces the oldest steps, the task stays, and every call in a request has its result. After a kill of the daemon the
// next run has the same shortened conversation.
func TestASessionPassesItsWindow(t *testing.T) {
	t.Parallel()
	const reads, page = 12, 10_000 // words of about one token each
	for _, driver := range []string{"anthropic", "openai-chat"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			provider := fakellm.Start(t)
			largest := 0
			provider.Handle(func(r *fakellm.Request) fakellm.Step {
				largest = max(largest, len(r.Body))
				last := r.LastText()
				if strings.Contains(last, "finish") {
					return fakellm.Step{fakellm.Say("All read.")}
				}
				n := len(provider.Requests())
				if n > reads {
					return fakellm.Step{fakellm.Say("Read them.")}
				}
				return fakellm.Step{fakellm.Tool("file.read", fmt.Sprintf(`{"path":"part%d.txt"}`, n))}
			})
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(provider, driver))
			dir := w.Project(t)
			project := kagedtest.Read(t, dir, ".kaged/project.yaml")
			// The window is 200,000 tokens, of which a quarter is for the answer; 70,000 leave 20,000 for the conversation.
			kagedtest.Write(t, dir, ".kaged/project.yaml", strings.Replace(project, "primary:\n",
				"primary:\n  include_tool_results_in_context: true\n"+
					"  compaction: {upper_threshold: 0.45, lower_threshold: 0.35}\n", 1))
			for i := range reads {
				lines := strings.Repeat(strings.Repeat("word ", 20)+"\n", page/20)
				kagedtest.Write(t, dir, fmt.Sprintf("part%d.txt", i+1), fmt.Sprintf("part %d\n%s", i+1, lines))
			}
			env := databaseEnv(t)
			d := w.Up(t, env)
			s := kagedtest.Open(t, w.SignIn(t), dir)
			if outcome := s.Run(t, "read the parts"); outcome != "completed" {
				t.Fatalf("the run %s", outcome)
			}
			completed := 0
			for _, f := range s.Frames {
				if f.Type == "compaction.completed" {
					completed++
				}
			}
			if completed == 0 || len(about(t, s, "compaction.completed")) != completed {
				t.Errorf("%d frames of compactions, %d records", completed, len(about(t, s, "compaction.completed")))
			}
			if largest > 5*(40_000+30_000) {
				t.Errorf("the largest request has %d bytes", largest)
			}

			d.Kill()
			<-d.Done()
			w.Up(t, env)
			s.Client = w.SignIn(t)
			s.Attach(t, s.Seen())
			before := provider.Requests()
			if outcome := s.Run(t, "finish"); outcome != "completed" {
				t.Fatalf("the run after the restart %s", outcome)
			}
			all := provider.Requests()
			last, next := before[len(before)-1], all[len(all)-1]
			if !strings.Contains(textOf(next.Messages), "to fit the model's window") {
				t.Errorf("the next run is given no note: %.400s", textOf(next.Messages))
			}
			if got, want := parts(next.Messages), parts(last.Messages); got != want {
				t.Errorf("the next run is given %s, the run ended with %s", got, want)
			}
			if first := textOf(next.Messages[:1]); !strings.Contains(first, "read the parts") {
				t.Errorf("the conversation begins with %q", first)
			}
		})
	}
}

// textOf joins the texts of messages.
func textOf(messages []llm.Message) string {
	var out strings.Builder
	for _, m := range messages {
		for _, b := range m.Blocks {
			if b.Text != nil {
				out.WriteString(b.Text.Text + "\n")
			}
		}
	}
	return out.String()
}

// parts names the results of a conversation in their order.
func parts(messages []llm.Message) string {
	var out []string
	for _, m := range messages {
		for _, b := range m.Blocks {
			if b.Result == nil {
				continue
			}
			_, rest, _ := strings.Cut(b.Result.Content, "part ")
			out = append(out, strings.TrimSpace(rest[:min(len(rest), 2)]))
		}
	}
	return strings.Join(out, " ")
}
