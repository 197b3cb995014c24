package ps

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The agents of a run are listed below it. A cage's line comes before those of its processes; uncaged processes come
// last. Texts of agents cannot move the cursor.
func TestWriteRunning(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000_000)
	id, gone := "01K00000000000000000CAGE01", "01K00000000000000000GONE01"
	var out bytes.Buffer
	err := writeRunning(&out, running{
		Runs: []runningRun{{
			ID: "R", SessionID: "S1", State: "running", CageStatus: "uncaged",
			CreatedAt: 1_000_000_000 - 70_000, Prompt: "Go.", LiveSubagents: []runningAgent{
				{
					InvocationID: "01I", Name: "tester", AgentPath: "primary.subagents.tester", State: "running",
					CageStatus: "caged", StartedAt: 1_000_000_000 - 65_000,
				},
			},
		}},
		Processes: []runningProcess{
			{
				ID:          "1",
				SessionID:   "S1",
				AgentPath:   "primary",
				PID:         7,
				Command:     "free\x1b[2J\nx",
				StartedAt:   1_000_000_000 - 3_600_000,
				MemoryBytes: 1 << 20,
				CPUMS:       1500,
			},
			{
				ID:        "2",
				SessionID: "S2",
				AgentPath: "primary.subagents.tester",
				CageID:    &id,
				PID:       8,
				Command:   "go test",
				StartedAt: 1_000_000_000 - 61_000,
			},
			{
				ID:        "3",
				SessionID: "S3",
				AgentPath: "primary",
				CageID:    &gone,
				PID:       9,
				Command:   "late",
				StartedAt: 1_000_000_000 + 5_000,
			},
		},
		Cages: []runningCage{
			{
				ID:          id,
				SessionID:   "S2",
				AgentPath:   "primary.subagents.tester",
				Tier:        "userns",
				StartedAt:   1_000_000_000 - 62_000,
				MemoryBytes: 5 << 20,
				Processes:   1,
			},
		},
	}, now)
	want := strings.Join([]string{
		"SESSION  AGENT                     CAGE      PID  SINCE   MEM     CPU    COMMAND",
		"S1       primary                   uncaged   -    1m10s   -       -      (run, running) Go.",
		"S1       primary.subagents.tester  caged     -    1m5s    -       -      (agent, running) 01I",
		"S2       primary.subagents.tester  00CAGE01  -    1m2s    5.0MiB  0.00s  (cage, userns, 1 process)",
		"S2       primary.subagents.tester  00CAGE01  8    1m1s    0.0MiB  0.00s  go test",
		"S1       primary                   -         7    1h0m0s  1.0MiB  1.50s  free\\x1b[2J x",
		"S3       primary                   00GONE01  9    0s      0.0MiB  0.00s  late",
		"",
	}, "\n")
	if d := cmp.Diff(want, out.String()); d != "" || err != nil {
		t.Error(d, err)
	}
	out.Reset()
	if err := writeRunning(&out, running{}, now); err != nil ||
		out.String() != "No runs, commands, cages or language servers are active.\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
