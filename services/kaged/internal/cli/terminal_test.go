package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/creack/pty"

	"kaged.dev/services/kaged/internal/cli/kit"
)

// hostile is a text that clears the screen, sets the title, reverses its direction and hides a part.
const hostile = "<\x1b[2J\x1b]0;owned\x07\u009b1A\u202eteg\u2066\u200b\r>"

// strangers answers every route with one object that has hostile text in every field that a command may print.
func strangers(t *testing.T) string {
	message := map[string]any{
		"role": hostile, "content": hostile, "metadata": map[string]any{"model": hostile, "error_message": hostile},
		"parts": []any{
			map[string]any{"type": "text", "text": hostile},
			map[string]any{"type": "thinking", "text": hostile},
			map[string]any{"type": "tool_call", "name": hostile, "input": map[string]any{hostile: hostile}},
			map[string]any{"type": "tool_result", "name": hostile, "output": hostile},
		},
	}
	session := map[string]any{
		"id": hostile, "name": hostile, "project_id": hostile, "state": hostile, "blocked_reason": hostile,
		"current_run": hostile, "cage_status": hostile,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := session
		switch {
		case strings.HasSuffix(r.URL.Path, "/missing"):
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"error": map[string]any{"code": "not_found", "message": hostile}}
		case strings.HasSuffix(r.URL.Path, "/messages"):
			answer = map[string]any{"items": []any{message}}
		case strings.HasSuffix(r.URL.Path, "/sessions"):
			answer = map[string]any{"items": []any{session}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(api.Close)
	return api.URL
}

// Text of models, tools and other processes cannot control a terminal: every command writes only lines of visible
// characters to it, and JSON with the same value.
func TestTerminalsShowStrangersTextOnly(t *testing.T) {
	t.Parallel()
	url := strangers(t)
	for _, line := range []string{
		"session list", "session list --json", "session show 01S", "session show 01S --json", "session show missing",
		"session export 01S", "session export 01S --format jsonl", "session list --search x",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			control, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer control.Close()
			got := make(chan string, 1)
			go func() {
				data, _ := io.ReadAll(control) // the end of a terminal is an error on Linux
				got <- string(data)
			}()
			app := kit.App{
				Args:   append(strings.Fields(line), "--url", url, "--data-dir", t.TempDir()),
				Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: terminal, Stderr: terminal,
			}
			Run(t.Context(), app)
			terminal.Close()
			shown := strings.ReplaceAll(<-got, "\r\n", "\n")
			if i := strings.IndexFunc(shown, func(r rune) bool {
				return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || strings.ContainsRune("\u202e\u2066\u200b", r)
			}); i >= 0 {
				t.Errorf("the terminal is moved by %+q", shown[i:min(i+20, len(shown))])
			}
			if !strings.Contains(shown, "teg") {
				t.Errorf("the terminal shows nothing of the text: %q", shown)
			}
			if strings.Contains(line, "json") && !strings.Contains(shown, `\u202e`) {
				t.Errorf("the JSON has another value: %s", shown)
			}
		})
	}
}
