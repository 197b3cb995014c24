package run

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/client"
)

// A run prints a line when half, 80 % and 95 % of a budget is used, once each.
func TestPrinterTellsOfBudgets(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	p := newPrinter(&out, &progress, false)
	for _, payload := range []string{
		`{"run_id":"r","scope":"agent","agent_path":"primary","limit":{"usd":0.5},"spent":{"usd":0.1,"tokens":5,"calls":1}}`,
		`{"run_id":"r","scope":"agent","agent_path":"primary","limit":{"usd":0.5},"spent":{"usd":0.3,"tokens":5,"calls":2}}`,
		`{"run_id":"r","scope":"agent","agent_path":"primary","limit":{"usd":0.5},"spent":{"usd":0.31,"tokens":5,"calls":2}}`,
		`{"run_id":"r","scope":"agent","agent_path":"primary","limit":{"usd":0.5},"spent":{"usd":0.49,"tokens":5,"calls":3}}`,
		`{"run_id":"r","scope":"session","limit":{"tokens":10,"calls":9},"spent":{"usd":0.1,"tokens":8,"calls":1}}`,
		`{"run_id":"other","scope":"operator","limit":{"calls":1},"spent":{"usd":0,"tokens":0,"calls":1}}`,
	} {
		p.frame(client.Frame{Channel: "events", Type: "budget.state", Payload: json.RawMessage(payload)}, "r")
	}
	var lines []string
	for line := range strings.Lines(progress.String()) {
		lines = append(lines, line[strings.Index(line, "budget"):])
	}
	want := "budget of primary: 0.3 of 0.5 USD\nbudget of primary: 0.49 of 0.5 USD\n" +
		"budget of the session: 8 of 10 tokens, 1 of 9 calls\n"
	if got := strings.Join(lines, ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The limits of the flags replace those of the session, and its other limits stay. Without flags the budget is not
// changed.
func TestFlagsKeepOtherLimits(t *testing.T) {
	t.Parallel()
	var sent []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			sent = append(sent, string(body))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"budget":{"limit":{"usd":2,"tokens":2000000,"calls":null,"unpriced":"allow"},"spent":{}}}`)
	}))
	defer api.Close()
	for _, f := range []runFlags{{}, {budgetUSD: 5}, {budgetCalls: 7, budgetWalltime: time.Minute}} {
		if err := f.setBudget(t.Context(), client.New(api.URL), "S"); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"budget":{"tokens":2000000,"unpriced":"allow","usd":5}}` +
		`{"budget":{"calls":7,"tokens":2000000,"unpriced":"allow","usd":2,"walltime_ms":60000}}`
	if got := strings.Join(sent, ""); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}
