package e2e_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// An administrator of a shared deployment drains the workspace of an operator: the run at work stops behind its step,
// and goes on under its id when the workspace is active again. The administrator sees counts and no content, and
// disables the operator. The operator reads all of that in the record; to another operator there is no such route.
func TestAnAdministrator(t *testing.T) {
	t.Parallel()
	var again atomic.Bool
	llm := fakellm.Start(t)
	llm.Handle(func(*fakellm.Request) fakellm.Step {
		if again.Load() {
			return fakellm.Step{fakellm.Say("Done.")}
		}
		return fakellm.Step{
			fakellm.Say("I keep " + secret + "."), fakellm.Delay(time.Second), fakellm.Tool("file.read", `{"path":"go.mod"}`),
		}
	})
	h := startShared(t, llm, "allow_uncaged = true\n")
	ada, root := h.signIn(t, "ada"), h.signIn(t, "root", "kaged-admins")
	s := kagedtest.Open(t, ada, h.project(t, "one"))
	run := s.Send(t, "look")
	s.Until(t, "message.start")
	post := func(c *client.Client, path string) error {
		return c.Do(t.Context(), http.MethodPost, "/api/v1/admin/"+path, map[string]any{}, nil)
	}
	for _, path := range []string{"workspaces/one/drain", "workspaces/one/release", "operators/root/disable"} {
		if err := post(ada, path); !errors.Is(err, fault.NotFound) {
			t.Errorf("an operator asks for %s: got %v, want not_found", path, err)
		}
	}
	if err := post(root, "workspaces/one/drain"); err != nil {
		t.Fatal(err)
	}
	if !h.drained(t, root, "one") {
		t.Error("the workspace is not drained")
	}
	kagedtest.Eventually(t, "the run is handed over", func() bool {
		var page struct{ Items []struct{ ID string } }
		err := ada.Do(t.Context(), http.MethodGet, "/api/v1/audit?event_type=run.handed_over", nil, &page)
		return err == nil && len(page.Items) == 1
	})
	again.Store(true)
	if err := post(root, "workspaces/one/release"); !errors.Is(err, fault.Conflict) {
		t.Errorf("releasing a workspace with a run: got %v, want conflict", err)
	}
	if err := post(root, "workspaces/one/activate"); err != nil {
		t.Fatal(err)
	}
	if outcome := ends(t, s, run); outcome != "completed" {
		t.Errorf("the run %s", outcome)
	}
	s.Contiguous(t)

	var seen strings.Builder
	for _, path := range []string{"operators", "workspaces", "audit"} {
		seen.WriteString(ask(t, root, csrfOf(t, root), "GET", "/api/v1/admin/"+path, "").body)
	}
	if strings.Contains(seen.String(), secret) || !strings.Contains(seen.String(), `"operator_id":"ada"`) {
		t.Errorf("the administrator sees %s", seen.String())
	}
	if err := post(root, "operators/ada/disable"); err != nil {
		t.Fatal(err)
	}
	kagedtest.Eventually(t, "the disabled operator is refused", func() bool {
		err := ada.Do(t.Context(), http.MethodGet, "/api/v1/projects", nil, nil)
		return errors.Is(err, fault.Forbidden) && fault.From(err).Details["reason"] == "operator_disabled"
	})
	if err := post(root, "operators/ada/enable"); err != nil {
		t.Fatal(err)
	}
	kagedtest.Eventually(t, "the operator is admitted again", func() bool {
		return ada.Do(t.Context(), http.MethodGet, "/api/v1/projects", nil, nil) == nil
	})
	for _, event := range []string{"admin.read", "operator.disabled", "workspace.drained", "workspace.activated"} {
		var page struct {
			Items []struct {
				Payload struct{ Administrator string }
			}
		}
		if err := ada.Do(t.Context(), http.MethodGet, "/api/v1/audit?event_type="+event, nil, &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Items) == 0 || page.Items[0].Payload.Administrator != "root" {
			t.Errorf("ada reads of %s: %+v", event, page.Items)
		}
	}
}

// drained reports whether a workspace is drained.
func (h *shared) drained(t *testing.T, c *client.Client, name string) bool {
	for _, w := range kagedtest.Get[struct {
		Items []struct{ Name, State string }
	}](t, c, "/api/v1/admin/workspaces").Items {
		if w.Name == name {
			return w.State == "draining"
		}
	}
	return false
}
