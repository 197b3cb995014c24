package bench

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// terminalCalls is the number of calls; the median counts.
const terminalCalls = 31

// measureTerminal measures a tool called from a terminal, with the start of the process, in excess of the start of an
// idle command.
func measureTerminal(ctx context.Context, w *world) ([]Figure, error) {
	floor, err := w.process(ctx, "version")
	if err != nil {
		return nil, err
	}
	read, err := w.process(ctx, "tools", "call", "file.read", `{"path":"small.txt"}`, "--project", w.project)
	if err != nil {
		return nil, err
	}
	shell, err := w.process(ctx, "tools", "call", "shell.bash", `{"command":"true"}`, "--project", w.project)
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Name: "terminal/file-read", Value: read, Unit: "ms", Floor: floor, Target: 50},
		{Name: "terminal/shell-bash", Value: shell, Unit: "ms", Floor: floor, Target: 100},
	}, nil
}

// process runs kaged to its end repeatedly and returns the median time in milliseconds.
func (w *world) process(ctx context.Context, args ...string) (float64, error) {
	took := make([]time.Duration, terminalCalls)
	for i := range took {
		cmd := exec.CommandContext(ctx, w.kaged, args...)
		cmd.Env = environ(w.dir)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("kaged %s: %w: %s", args[0], err, out)
		}
		took[i] = time.Since(began)
	}
	return ms(percentile(took, 50)), nil
}
