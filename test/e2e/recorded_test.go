package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// recorded is an entry of the audit record.
type recorded struct {
	EventType string `json:"event_type"`
	Payload   map[string]any
}

// about returns the audit records of a session with a type.
func about(t *testing.T, s *kagedtest.Session, eventType string) []recorded {
	t.Helper()
	page := kagedtest.Get[struct{ Items []recorded }](t, s.Client, "/api/v1/audit?session="+s.ID+"&limit=200")
	var list []recorded
	for _, item := range page.Items {
		if item.EventType == eventType {
			list = append(list, item)
		}
	}
	return list
}

// A command that an operator cancels is recorded, with its parameters, and as run.
func TestCancelledCommandIsRecorded(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(*fakellm.Request) fakellm.Step {
		return fakellm.Step{fakellm.Tool("shell.bash", `{"command":"echo started; sleep 1000","env":{"API_TOKEN":"x"}}`)}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	w.Up(t, databaseEnv(t))
	s := kagedtest.Open(t, w.SignIn(t), dir)
	run := s.Send(t, "wait")
	s.Until(t, "message.tool_output")
	kagedtest.Post[struct{}](t, s.Client, "/api/v1/sessions/"+s.ID+"/runs/"+run+"/cancel", map[string]any{})
	s.Until(t, "run.ended")

	called := about(t, s, "tool.called")
	if len(called) != 1 {
		t.Fatalf("called: %v", called)
	}
	params, _ := called[0].Payload["params"].(map[string]any)
	vars, _ := params["env"].(map[string]any)
	if command, _ := params["command"].(string); !strings.HasSuffix(command, "sleep 1000") ||
		vars["API_TOKEN"] != "[masked]" {
		t.Errorf("called with %v", params)
	}
	ran := about(t, s, "shell.executed")
	if len(ran) != 1 || ran[0].Payload["command"] != "echo started; sleep 1000" ||
		ran[0].Payload["error_code"] != "cancelled" {
		t.Errorf("executed: %v", ran)
	}
}

// A background process that ends with its session is recorded, although no client polled it.
func TestProcessesOfAnEndedSessionAreRecorded(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.Turns() == 0 {
			return fakellm.Step{fakellm.Tool("shell.exec", `{"command":"sleep 1000","background":true}`)}
		}
		return fakellm.Step{fakellm.Say("It runs.")}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	kagedtest.Write(
		t, dir, ".kaged/project.yaml", strings.Replace(kagedtest.Read(t, dir, ".kaged/project.yaml"), `"shell.bash"`,
			`"shell.*"`, 1),
	)
	w.Up(t, databaseEnv(t))
	s := kagedtest.Open(t, w.SignIn(t), dir)
	if outcome := s.Run(t, "start it"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	if err := s.Client.Do(t.Context(), http.MethodDelete, "/api/v1/sessions/"+s.ID+"?confirm=true", nil, nil); err != nil {
		t.Fatal(err)
	}
	kagedtest.Eventually(t, "its end is recorded", func() bool { return len(about(t, s, "shell.executed")) > 0 })
	started, ran := about(t, s, "process.started"), about(t, s, "shell.executed")
	if len(started) != 1 || len(ran) != 1 || ran[0].Payload["process_id"] != started[0].Payload["process_id"] ||
		ran[0].Payload["command"] != "sleep 1000" {
		t.Errorf("started %v, executed %v", started, ran)
	}
}
