package e2e_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// kaged runs the command beside the gateway of a deployment, and returns its output and its exit code.
func (h *shared) kaged(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	p := kagedtest.Command(t, "kaged", h.env["gateway"], args...)
	out, code = p.Rest(t)
	return strings.TrimSpace(out), p.Stderr.Tail(20), code
}

// An administrator types `kaged operator config` beside the gateway. The operator's next message goes to the other
// model, without the tool that is turned off, and another operator's to the deployment's. The operator sees who
// changed what; a wrong file is refused with its line, and the command without the nonce is refused.
func TestConfigurationPerOperator(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("Done.")} })
	h := startShared(t, llm, "allow_uncaged = true\n")
	ada, bob := h.signIn(t, "ada"), h.signIn(t, "bob")
	hers, his := kagedtest.Open(t, ada, h.project(t, "one")), kagedtest.Open(t, bob, h.project(t, "two"))
	asked := func(s *kagedtest.Session) *fakellm.Request {
		t.Helper()
		if outcome := s.Run(t, "go"); outcome != "completed" {
			t.Fatalf("a run %s", outcome)
		}
		list := llm.Requests()
		return &list[len(list)-1]
	}
	has := func(r *fakellm.Request, tool string) bool {
		for _, one := range r.Tools {
			if one.Name == tool {
				return true
			}
		}
		return false
	}
	if r := asked(hers); r.Model != "claude-sonnet-4-5" || !has(r, "shell.bash") {
		t.Fatalf("before: model %s, shell %t", r.Model, has(r, "shell.bash"))
	}
	kagedtest.Write(t, h.Dir, "ada.toml", "operator_name = \"Ada\"\n\n[models]\n"+
		"smart-generalist = \"fake:claude-opus-4-5\"\n\n[default_tools]\n\"shell.bash\" = {enabled = false}\n")
	file := filepath.Join(h.Dir, "ada.toml")
	out, errs, code := h.kaged(t, "operator", "config", "ada", file, "--as", "root")
	if code != 0 || out != "the configuration of ada: set, revision 1; it applies from the next message" {
		t.Fatalf("it ended with %d: %s%s", code, out, errs)
	}
	kagedtest.Eventually(t, "the configuration applies", func() bool {
		r := asked(hers)
		return r.Model == "claude-opus-4-5" && !has(r, "shell.bash")
	})
	if r := asked(his); r.Model != "claude-sonnet-4-5" || !has(r, "shell.bash") {
		t.Errorf("bob's message: model %s, shell %t", r.Model, has(r, "shell.bash"))
	}
	me := kagedtest.Get[struct {
		OperatorName string `json:"operator_name"`
	}](t, ada, "/api/v1/me")
	if me.OperatorName != "Ada" {
		t.Errorf("ada is %q", me.OperatorName)
	}
	if out, _, code := h.kaged(t, "operator", "config", "ada", "--as", "root"); code != 0 ||
		!strings.Contains(out, "claude-opus-4-5") {
		t.Errorf("printing ended with %d: %s", code, out)
	}
	records := kagedtest.Get[struct {
		Items []struct {
			Payload struct{ Administrator string }
		}
	}](t, ada, "/api/v1/audit?event_type=operator.configured").Items
	if len(records) != 1 || records[0].Payload.Administrator != "root" {
		t.Errorf("ada reads %+v", records)
	}
	h.ownConfiguration(t, hers, llm)
	h.refusedConfigurations(t)
}

// ownConfiguration lets ada set her own configuration, below the administrators'.
func (h *shared) ownConfiguration(t *testing.T, s *kagedtest.Session, llm *fakellm.Server) {
	t.Helper()
	own := "operator_name = \"Countess\"\n[ui]\ntheme = \"light\"\n[models]\n" +
		"smart-generalist = \"fake:claude-haiku-4-5\"\n"
	err := s.Client.Do(t.Context(), http.MethodPut, "/api/v1/local/config", map[string]any{"document": own}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type view struct {
		OperatorName string `json:"operator_name"`
		Preferences  struct{ Theme string }
	}
	kagedtest.Eventually(t, "ada's own theme applies", func() bool {
		return kagedtest.Get[view](t, s.Client, "/api/v1/me").Preferences.Theme == "light"
	})
	if me := kagedtest.Get[view](t, s.Client, "/api/v1/me"); me.OperatorName != "Ada" {
		t.Errorf("ada is %q, want the administrators' name", me.OperatorName)
	}
	s.Run(t, "again")
	if list := llm.Requests(); list[len(list)-1].Model != "claude-opus-4-5" {
		t.Errorf("ada's own model %s won", list[len(list)-1].Model)
	}
}

// refusedConfigurations types what is refused.
func (h *shared) refusedConfigurations(t *testing.T) {
	t.Helper()
	kagedtest.Write(t, h.Dir, "wrong.toml", "[models]\n\n[budget]\nusd = 1000.0\n")
	wrong := filepath.Join(h.Dir, "wrong.toml")
	for _, c := range []struct{ args, want string }{
		{"ada " + wrong + " --as root", wrong + ":3:2: budget: an administrator sets limits and budgets"},
		{"nobody --as root", `The deployment knows no operator "nobody". (not_found)`},
		{"ada", "--as with your user id as an administrator is needed"},
		{"--own --as root", "--own and --as exclude each other"},
		{"", "an operator is needed, or --own"},
		{"ada /nonexistent --as root", "The file /nonexistent cannot be read: no such file or directory. (file_io)"},
	} {
		_, errs, code := h.kaged(t, append([]string{"operator", "config"}, strings.Fields(c.args)...)...)
		if code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: ended with %d: %s, want %s", c.args, code, errs, c.want)
		}
	}
	away := kagedtest.Command(t, "kaged", h.env["harness"], "operator", "config", "ada", "--as", "root")
	if _, code := away.Rest(t); code == 0 || !strings.Contains(away.Stderr.Tail(5), "run this beside the gateway") {
		t.Errorf("away from the gateway it ended with %d: %s", code, away.Stderr.Tail(5))
	}
}
