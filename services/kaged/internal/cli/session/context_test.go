package session

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// A finished compaction names the command that undoes it, and this command sends the route's request and says how many
// messages are back. The last compaction is undone without its id.
func TestUndoOfACompaction(t *testing.T) {
	t.Parallel()
	var asked string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"items":[{"id":"cmp_2","undone_at":1700000000000},`+
				`{"id":"cmp_1","undone_at":null}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"cmp_1","superseded_count":2,"undone_at":1700000000000}`)
	}))
	defer api.Close()
	var out bytes.Buffer
	n := compactAnswer{CompactionID: "cmp_1", Strategy: "drop"}
	raw := map[string]any{"threshold_estimate": 0.9, "after_estimate": 0.5, "superseded_count": 2.0}
	err := n.finished(&out, "S", raw, nil)
	if err != nil || !strings.Contains(out.String(), "kaged compact S --undo cmp_1") {
		t.Errorf("%q, %v", out.String(), err)
	}
	for _, id := range []string{"cmp_1", lastCompaction} {
		out.Reset()
		if err := undo(t.Context(), &out, client.New(api.URL), "S", id, false); err != nil {
			t.Fatal(err)
		}
		if asked != "POST /api/v1/sessions/S/compactions/cmp_1/undo" ||
			out.String() != "cmp_1 is undone; the conversation has 2 messages again.\n" {
			t.Errorf("asked %s, said %q", asked, out.String())
		}
	}
}

// Shares of an unknown window are shares of the assumed one, and both the plan of a compaction and the session's own
// line say so.
func TestAnUnknownWindowIsAssumed(t *testing.T) {
	t.Parallel()
	unknown := &kit.Window{Input: 12_000, Reserved: 800}
	assumed := "% of 128000 assumed tokens (the window is unknown; set context_window of the model in local.toml)"
	var plan compactAnswer
	if err := json.Unmarshal([]byte(`{"strategy":"drop","agent_path":"primary","proposed":{"threshold_estimate":0.1,`+
		`"after_estimate":0.05,"superseded_message_ids":["m"]}}`), &plan); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := plan.write(&out, unknown); err != nil || !strings.Contains(out.String(), "from 10 % to 5 "+assumed+",") {
		t.Errorf("the plan: %q, %v", out.String(), err)
	}
	if got := unknown.String(); got != "about 12000 tokens, 10 "+assumed+" with the room for an answer" {
		t.Errorf("the session: %q", got)
	}
	window := int64(200_000)
	known := &kit.Window{Input: 12_000, Reserved: 800, Window: &window, Fraction: 0.064}
	out.Reset()
	err := plan.write(&out, known)
	if err != nil || !strings.Contains(out.String(), "from 10 % to 5 % of the window,") {
		t.Errorf("the plan for a known window: %q, %v", out.String(), err)
	}
}
