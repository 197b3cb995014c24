package lsp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
)

var list = []Server{
	{
		Lang: "go", Command: []string{"gopls"}, State: "ready", PID: 7, OpenFiles: 3, ProjectID: "demo",
		StartedAt: 1_000, Caged: true, Log: "one\ntwo\x1b[2J\n",
	},
	{Lang: "rust", Command: []string{"rust-analyzer"}, State: "failed", RestartCount: 3, ProjectID: "demo"},
}

// A server is shown on one line. Only a running server has a process and an age.
func TestStatus(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := write(&out, list, false, time.UnixMilli(61_000)); err != nil {
		t.Fatal(err)
	}
	want := `PROJECT  LANG  STATE   CAGE     PID  SINCE  RESTARTS  OPEN  COMMAND
demo     go    ready   caged    7    1m0s   0         3     gopls
demo     rust  failed  uncaged  -    -      3         0     rust-analyzer
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	out.Reset()
	if err := write(&out, nil, true, time.Now()); err != nil || !strings.Contains(out.String(), `"servers": []`) {
		t.Errorf("JSON of no server: %q, %v", out.String(), err)
	}
}

// Logs are shown by server, with control characters escaped; a language without a server is an error.
func TestLogs(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := writeLogs(&out, list, "go", false); err != nil || strings.Contains(out.String(), "\x1b") ||
		!strings.HasPrefix(out.String(), "go (ready, caged):\n  one\n  two") {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := writeLogs(&out, list, "rust", false); err != nil ||
		out.String() != "rust (failed, uncaged):\n  It has written nothing.\n" {
		t.Errorf("without output: %q, %v", out.String(), err)
	}
	for _, asJSON := range []bool{false, true} {
		if err := writeLogs(&out, list, "zig", asJSON); !errors.Is(err, fault.NotFound) {
			t.Errorf("zig: %v", err)
		}
	}
	out.Reset()
	var got servers
	err := writeLogs(&out, list, "go", true)
	if err := errors.Join(err, json.Unmarshal([]byte(out.String()), &got)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(list[:1], got.Servers); d != "" {
		t.Error(d)
	}
}
