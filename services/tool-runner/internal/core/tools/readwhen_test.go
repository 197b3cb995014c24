package tools_test

import (
	"encoding/json"
	"testing"

	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// The read-only calls of shell.process are determined by their parameters, under both of its names. They change no
// state and need no approval. Waiting calls are determined in the same way.
func TestReadWhen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	entry := b.entry("shell.process")
	for _, c := range []struct {
		name, input string
		want        bool
	}{
		{"shell.process", `{"action":"list"}`, true},
		{"shell.process", `{"action":"status","process_id":"x"}`, true},
		{"shell.process", `{"action":"poll","process_id":"x","offset":0}`, true},
		{"shell.process", `{"action":"poll","process_id":"x"}`, false}, // it consumes the new output
		{"shell.process", `{"action":"input","process_id":"x","input":"y"}`, false},
		{"shell.process", `{"action":"signal","process_id":"x","signal":"INT"}`, false},
		{"shell.process", `{"action":"kill","process_id":"x"}`, false},
		{"process", `{"action":"status","process_id":"x"}`, true},
		{"process", `{"action":"poll","process_id":"x"}`, false},
	} {
		t.Run(c.name+c.input, func(t *testing.T) {
			t.Parallel()
			if got := entry.OnlyLooks(c.name, json.RawMessage(c.input)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			params, err := entry.Decode(c.name, schema.Parse([]byte(c.input)))
			if err != nil {
				t.Fatal(err)
			}
			if effect := entry.Effect(params); c.want && (effect.Category != tool.Read || len(entry.Commands(params)) > 0) {
				t.Errorf("it only looks, and has the effect %v", effect)
			}
		})
	}
	for _, c := range []struct {
		tool, input string
		want        bool
	}{
		{"shell.process", `{"action":"poll","process_id":"x"}`, true},
		{"shell.process", `{"action":"status","process_id":"x"}`, true},
		{"shell.process", `{"action":"input","process_id":"x","input":"y"}`, false},
		{"debug", `{"action":"continue"}`, true},
		{"debug", `{"action":"step_over"}`, true},
		{"debug", `{"action":"variables"}`, false},
		{"code.lsp", `{"action":"diagnostics","path":"a.go","wait":1000}`, true},
		{"code.lsp", `{"action":"diagnostics","path":"a.go"}`, false},
		{"file.read", `{"path":"a.go"}`, false},
	} {
		if got := b.entry(c.tool).WaitWhen.Holds([]byte(c.input)); got != c.want {
			t.Errorf("%s %s waits: got %v, want %v", c.tool, c.input, got, c.want)
		}
	}
	for _, e := range b.catalogue {
		if e.Category == tool.Read && e.ReadWhen != nil {
			t.Errorf("%s only looks and says when it does", e.Name())
		}
	}
}
