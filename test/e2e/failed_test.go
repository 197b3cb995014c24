package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// failures are the failures of a provider, by the message that triggers them, with the error code of the run.
var failures = map[string]struct {
	code string
	step fakellm.Step
}{
	"credentials": {"provider_auth_failed", fakellm.Step{fakellm.Status(401, "invalid key")}},
	"limited":     {"provider_rate_limited", fakellm.Step{fakellm.Status(429, "slow down")}},
	"down":        {"provider_unreachable", fakellm.Step{fakellm.Status(500, "oops")}},
	"refused":     {"provider_rejected", fakellm.Step{fakellm.Status(400, "no such tool choice")}},
	"too long": {
		"context_overflow", fakellm.Step{fakellm.Status(400, "This model's maximum context length is 128000 tokens.")},
	},
	"nonsense": {"provider_bad_response", fakellm.Step{fakellm.Say("Well"), fakellm.Garbage()}},
	"cut":      {"provider_bad_response", fakellm.Step{fakellm.Deltas(100, 20, 0), fakellm.Cut(4000)}},
	"overload": {
		"provider_bad_response", fakellm.Step{fakellm.Say("Well"), fakellm.Error("overloaded_error", "Overloaded")},
	},
}

// A failure within a run is a state of the run and no failure of the daemon: the message is accepted, and the session,
// the run, its messages and the record are returned with 200, for any wire format and any failure of the provider
// (A-ERR-5XX-01).
func TestAFailedRunIsNoServerError(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if f, fails := failures[r.LastText()]; fails {
			return f.step
		}
		if r.Turns() == 0 {
			return fakellm.Step{fakellm.Tool("file.read", `{"path":"no/such/file"}`)}
		}
		return fakellm.Step{fakellm.Say("It is not there.")}
	})
	config := "[models]\nsmart-generalist = \"anthropic:m\"\n[services.harness]\nretry_delay = \"1ms\"\n"
	drivers := []string{"anthropic", "google", "openai", "openai-chat"}
	for _, driver := range drivers {
		config += fmt.Sprintf("[providers.%s]\nbase_url = %q\napi_key = \"sk-test\"\n", driver, llm.BaseURL(driver))
	}
	w := kagedtest.NewWorld(t, config)
	d := w.Up(t, databaseEnv(t), "--insecure")
	ann := newSurface(t, d.LaunchURL, "")
	body, _ := json.Marshal(map[string]string{"path": w.Project(t)})
	ann.do("POST", "/api/v1/projects/load", string(body), 201)
	for _, driver := range drivers {
		for text, f := range failures {
			run := runFor(t, ann, driver, text)
			e, _ := run["error"].(map[string]any)
			if run["state"] != "failed" || e["code"] != f.code || e["message"] == "" {
				t.Errorf("%s, %s: the run is %v with %v, want %s", driver, text, run["state"], e, f.code)
			}
		}
		// A tool that fails does not even make the run fail.
		if run := runFor(t, ann, driver, "read it"); run["state"] != "completed" || run["error"] != nil {
			t.Errorf("%s, a failed tool: the run is %v with %v", driver, run["state"], run["error"])
		}
	}
}

// runFor makes a new session answer a message with a driver, and returns the run after all of it was read with 200.
func runFor(t *testing.T, ann *surface, driver, text string) map[string]any {
	t.Helper()
	session := "/api/v1/sessions/" + ann.do("POST", "/api/v1/projects/wordcount/sessions", "{}", 201)["id"].(string)
	posted := ann.do("POST", session+"/messages", fmt.Sprintf(`{"content":%q,"model_override":"%s:m"}`, text, driver), 202)
	kagedtest.Eventually(t, "the session is idle", func() bool { return ann.get(session, 200)["state"] == "idle" })
	ann.get(session+"/messages", 200)
	ann.get(session+"/runs", 200)
	ann.get("/api/v1/audit?session="+strings.TrimPrefix(session, "/api/v1/sessions/"), 200)
	return ann.get(session+"/runs/"+posted["run_id"].(string), 200)
}
