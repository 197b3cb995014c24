package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// longModel is a model that first writes down a decision, and then reads one part after the other until it has read
// all.
type longModel struct {
	rounds int

	mu      sync.Mutex
	round   int // the number of the requested part
	inRun   int // the calls since the operator's last message
	largest int
	lost    bool // a request lacked the decision
}

// perRun is the number of calls of one run: a run has at most 100 steps.
const perRun = 80

// answer requests the next part after the previous one was read.
func (m *longModel) answer(r *fakellm.Request) fakellm.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.largest = max(m.largest, len(r.Body))
	seen := map[string]bool{}
	all := textOf(r.Messages)
	for _, msg := range r.Messages {
		for _, b := range msg.Blocks {
			if b.Result != nil {
				name, _, _ := strings.Cut(strings.TrimPrefix(b.Result.Content, `{"path":"./`), ".txt")
				seen[name] = true
				all += b.Result.Content
			}
			if b.Call != nil {
				all += b.Call.Input
			}
		}
	}
	if m.round > 1 && !strings.Contains(all, decision) {
		m.lost = true
	}
	if last := r.Messages[len(r.Messages)-1]; last.Role == llm.RoleUser && !hasResult(last) {
		m.inRun = 0
	}
	if m.round == 0 {
		m.round = 1
		return fakellm.Step{fakellm.Tool("kaged.note", fmt.Sprintf(`{"kind":"decision","text":%q}`, decision))}
	}
	if seen[part(m.round)] {
		m.round++
	}
	if m.inRun++; m.round > m.rounds || m.inRun > perRun {
		return fakellm.Step{fakellm.Say(fmt.Sprintf("Read %d parts.", m.round-1))}
	}
	return fakellm.Step{fakellm.Tool("file.read", fmt.Sprintf(`{"path":"%s.txt"}`, part(m.round)))}
}

func (m *longModel) at() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.round
}

const decision = "decision: the parser stays in parse.go"

func part(i int) string { return fmt.Sprintf("part%03d", i) }

func hasResult(m llm.Message) bool {
	for _, b := range m.Blocks {
		if b.Result != nil {
			return true
		}
	}
	return false
}

// 300 rounds of tools in a window of 32,000 tokens complete the work with both wire formats, although the daemon is
// killed in the middle: no request exceeds the window, every request after the first decision has it, and the ledger
// has every file that was read.
func TestThreeHundredRoundsInASmallWindow(t *testing.T) {
	t.Parallel()
	const rounds, words = 300, 400
	for _, driver := range []string{"anthropic", "openai-chat"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			provider := fakellm.Start(t)
			model := &longModel{rounds: rounds}
			provider.Handle(model.answer)
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(provider, driver)+
				"[[providers.fake.models]]\nid = \"claude-sonnet-4-5\"\ncontext_window = 32000\nmax_output = 4000\n"+
				"price = {input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75}\n")
			dir := w.Project(t)
			project := kagedtest.Read(t, dir, ".kaged/project.yaml")
			project = regexp.MustCompile(`max_steps: \d+`).ReplaceAllString(project, "max_steps: 100")
			kagedtest.Write(t, dir, ".kaged/project.yaml", strings.Replace(project, "primary:\n",
				"primary:\n  include_tool_results_in_context: true\n", 1))
			for i := range rounds {
				kagedtest.Write(t, dir, part(i+1)+".txt", strings.Repeat(strings.Repeat("word ", 20)+"\n", words/20))
			}
			env := databaseEnv(t)
			d := w.Up(t, env)
			s := kagedtest.Open(t, w.SignIn(t), dir)
			s.Run(t, "read the parts")
			s.Send(t, "go on")
			kagedtest.Eventually(t, "the middle of the work", func() bool { return model.at() > rounds/2 })
			d.Kill()
			<-d.Done()
			w.Up(t, env)
			s.Client = w.SignIn(t)
			s.Attach(t, s.Seen())
			for range 8 {
				if model.at() > rounds {
					break
				}
				if outcome := s.Run(t, "go on"); outcome != "completed" {
					t.Fatalf("a run %s after %d parts", outcome, model.at())
				}
			}
			if n := model.at() - 1; n != rounds {
				t.Fatalf("%d parts were read", n)
			}
			if model.lost {
				t.Error("a request lacks the decision")
			}
			if model.largest > 32_000*5 {
				t.Errorf("the largest request has %d bytes", model.largest)
			}
			read := map[string]bool{}
			path, cursor := "/api/v1/sessions/"+s.ID+"/ledger?kind=file_read&limit=200", ""
			for {
				page := kagedtest.Get[struct {
					Items []struct{ Path, SHA256 string }
					Next  *string `json:"next_cursor"`
				}](t, s.Client, path+"&cursor="+cursor)
				for _, i := range page.Items {
					read[i.Path] = len(i.SHA256) == 64
				}
				if page.Next == nil {
					break
				}
				cursor = *page.Next
			}
			for i := range rounds {
				if !read["./"+part(i+1)+".txt"] {
					t.Errorf("the ledger lacks %s", part(i+1))
				}
			}
			compactions := kagedtest.Get[struct{ Items []struct{ ID string } }](t, s.Client,
				"/api/v1/sessions/"+s.ID+"/compactions?limit=200")
			if len(compactions.Items) < 3 {
				t.Errorf("%d compactions", len(compactions.Items))
			}
			estimate := kagedtest.Get[struct {
				Window   int64 `json:"context_window"`
				Fraction float64
			}](t, s.Client, "/api/v1/sessions/"+s.ID+"/context-estimate")
			if estimate.Window != 32_000 || estimate.Fraction <= 0 || estimate.Fraction > 0.9 {
				t.Errorf("estimate %+v", estimate)
			}
		})
	}
}
