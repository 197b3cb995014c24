package tools_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Patches that run one after the other and at the same time use the same memory. None finds the text of another one in
// its files or in its answer.
func TestPatchesShareMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const agents, rounds = 4, 20
	text := func(agent, round int) string {
		return strings.Repeat(fmt.Sprintf("line of %d\n", agent), 2000) + fmt.Sprintf("round %d of %d\n", round, agent)
	}
	for agent := range agents {
		b.write(fmt.Sprintf("f%d", agent), text(agent, 0))
		b.ok("file.read", in{"path": fmt.Sprintf("f%d", agent), "limit": 1}, nil)
	}
	var working sync.WaitGroup
	for agent := range agents {
		working.Go(func() {
			name := fmt.Sprintf("f%d", agent)
			for round := range rounds {
				gone, came := fmt.Sprintf("-round %d of %d\n", round, agent), fmt.Sprintf("+round %d of %d\n", round+1, agent)
				o, err := b.do(t.Context(), "edit.patch", envelope("*** Update File: "+name+"\n"+gone+came))
				if err != nil || o.Fault != nil {
					t.Errorf("agent %d: %v %v", agent, err, o.Fault)
					return
				}
				diff := strings.Repeat(fmt.Sprintf(" line of %d\n", agent), 3) + gone + came
				if want := strings.ReplaceAll(diff, "\n", `\n`); !strings.Contains(o.Result.Content, want) {
					t.Errorf("agent %d: %s, want %s in it", agent, o.Result.Content, want)
				}
				if b.content(name) != text(agent, round+1) {
					t.Errorf("agent %d: the file of round %d is not its text", agent, round)
				}
			}
		})
	}
	working.Wait()
}
