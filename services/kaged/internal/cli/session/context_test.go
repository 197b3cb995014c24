package session

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kaged.dev/pkg/client"
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
	if err := n.finished(&out, "S", raw); err != nil || !strings.Contains(out.String(), "kaged compact S --undo cmp_1") {
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
