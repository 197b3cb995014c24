package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"kaged.dev/services/kaged/internal/cli/kit"
)

// Ctrl-C during the checks is no finding about the machine.
func TestDoctorCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	app := kit.App{
		Args: []string{"--data-dir", t.TempDir(), "doctor"}, Getenv: func(string) string { return "" },
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
	}
	if code := Run(ctx, app); code != kit.ExitCancelled || out.Len()+errs.Len() > 0 {
		t.Errorf("it ended with %d and printed %q, %q", code, out.String(), errs.String())
	}
}
