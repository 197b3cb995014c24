package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// belowPrompt is the system prompt of the agents below the root.
const belowPrompt = "You are measured below."

// The numbers of measured agents and runs. All children of a tree are called in one turn.
const (
	delegationRuns, delegationsEach = 4, 50
	treeAgents, treeLive            = 50, 10
	treeRounds                      = 5
	treeTurn                        = 200 * time.Millisecond
	crowdRuns, loneRuns             = 200, 40
	memoryRuns                      = 20
)

const agentsFile = `version: 1
project: agents
description: What a tree of agents is measured with.
primary:
  model: bench
  system_prompt: ./prompt.md
  max_steps: 100
  cage: disabled
  tools:
    "file.read": {enabled: true}
  subagents:
    plain:
      model: bench
      system_prompt: ./below.md
      tools: {"file.read": {enabled: true}}
    boxed:
      model: bench
      system_prompt: ./below.md
      tools: {"file.read": {enabled: true}}
      cage:
        fs:
          - {mode: ro, path: project:/}
`

// measureAgents measures the cost of a delegation beyond its model calls and tool round, the distance of a tree
// from its critical path, and the memory of agents.
func measureAgents(ctx context.Context, w *world) ([]Figure, error) {
	project := filepath.Join(w.dir, "agents")
	for path, content := range map[string]string{
		filepath.Join(project, ".kaged", "project.yaml"): agentsFile,
		filepath.Join(project, "prompt.md"):              "You are measured.\n",
		filepath.Join(project, "below.md"):               belowPrompt + "\n",
		filepath.Join(project, "small.txt"):              "one\ntwo\nthree\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	type measure = func(context.Context, *daemon) ([]Figure, error)
	figures, err := budgetCheck(ctx)
	if err != nil {
		return nil, err
	}
	// Memory is measured in a separate daemon, which has no garbage from earlier work.
	for _, measures := range [][]measure{{w.delegations, w.tree, w.crowd}, {w.liveMemory}} {
		got, err := w.with(ctx, func(d *daemon) (figures []Figure, err error) {
			if err := d.load(ctx, project); err != nil {
				return nil, err
			}
			d.works = "agents"
			for _, measure := range measures {
				got, err := measure(ctx, d)
				figures = append(figures, got...)
				if err != nil {
					return figures, err
				}
			}
			return figures, nil
		})
		figures = append(figures, got...)
		if err != nil {
			return figures, err
		}
	}
	return figures, nil
}

// budgetPackage has the benchmark of the check before each model call.
const budgetPackage = "kaged.dev/services/harness/internal/core/budget"

var perCheck = regexp.MustCompile(`(?m)^BenchmarkCheck\S*\s+\d+\s+([0-9.]+) ns/op`)

// budgetCheck measures the cost of checking the budgets of sixteen levels of agents.
func budgetCheck(ctx context.Context) ([]Figure, error) {
	test := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkCheck$", budgetPackage)
	out, err := test.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test %s: %w: %s", budgetPackage, err, out)
	}
	found := perCheck.FindSubmatch(out)
	if found == nil {
		return nil, fmt.Errorf("go test %s has no figure: %s", budgetPackage, out)
	}
	ns, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return nil, err
	}
	return []Figure{{
		Name: "agents/budget-check", Value: ns / 1e3, Unit: "us", Target: 50, Note: "16 levels, reserve and settle",
	}}, nil
}

// oneRound is the plan of a child that reads a file and answers: two model calls and a plain tool round.
var oneRound = &plan{tool: "file.read", input: `{"path":"small.txt"}`, rounds: 1}

// delegations measures the time from the last byte of the answer that calls a child to the parent's next request, less
// two bare calls of the model and a plain tool round.
func (w *world) delegations(ctx context.Context, d *daemon) ([]Figure, error) {
	plain, err := w.rounds(ctx, d, "file.read", `{"path":"small.txt","limit":ROUND}`)
	if err != nil {
		return nil, err
	}
	bare, err := w.bareCalls(ctx)
	if err != nil {
		return nil, err
	}
	ground := 2*percentile(bare, 50) + percentile(plain, 50)
	var figures []Figure
	for _, child := range []struct {
		name   string
		target float64
	}{{"plain", 3}, {"boxed", 8}} {
		var over, first []time.Duration
		for run := range delegationRuns + 1 {
			w.model.set(plan{
				tool: "agent-" + child.name, input: `{"prompt":"Look, ROUND."}`, rounds: delegationsEach,
				below: oneRound,
			})
			session, err := d.session(ctx)
			if err != nil {
				return figures, err
			}
			if _, err := d.follow(ctx, session, "go"); err != nil {
				return figures, err
			}
			arrived, ended := w.model.times()
			if len(arrived) != 3*delegationsEach+1 {
				return figures, fmt.Errorf("%d requests for %d calls of %s", len(arrived), delegationsEach, child.name)
			}
			for i := 0; i < 3*delegationsEach && run > 0; i += 3 { // the first run fills caches
				over = append(over, arrived[i+3].Sub(ended[i])-ground)
				first = append(first, arrived[i+1].Sub(ended[i]))
			}
		}
		figures = append(figures,
			Figure{
				Name: "agents/delegation/" + child.name, Value: ms(percentile(over, 50)), Spread: spread(over), Unit: "ms",
				Floor: ms(ground), Target: child.target, Note: "over the floor: two bare calls and a tool round",
			},
			Figure{
				Name: "agents/first-request/" + child.name, Value: ms(percentile(first, 50)), Spread: spread(first),
				Unit: "ms",
			})
	}
	return figures, nil
}

// bareCalls measures calls of the model without kaged.
func (w *world) bareCalls(ctx context.Context) ([]time.Duration, error) {
	w.model.set(plan{})
	var took []time.Duration
	for range delegationRuns * delegationsEach {
		begun := time.Now()
		req, err := http.NewRequestWithContext(
			ctx, http.MethodPost, w.model.url+"/v1/messages", bytes.NewReader([]byte(`{}`)))
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

// tree measures the time of a tree of many agents with several rounds each, of which a few work at once, and compares
// it with the tree's critical path.
func (w *world) tree(ctx context.Context, d *daemon) ([]Figure, error) {
	below := &plan{tool: "file.read", input: `{"path":"small.txt","limit":ROUND}`, rounds: treeRounds - 1, takes: treeTurn}
	w.model.set(plan{
		tool: "agent-plain", input: `{"prompt":"Look, CALL."}`, rounds: 1, width: treeAgents - 1, takes: treeTurn,
		below: below,
	})
	session, err := d.session(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if _, err := d.follow(ctx, session, "go"); err != nil {
		return nil, err
	}
	wall := time.Since(begun)
	if arrived, _ := w.model.times(); len(arrived) != (treeAgents-1)*treeRounds+2 {
		return nil, fmt.Errorf("%d requests for a tree of %d agents", len(arrived), treeAgents)
	}
	waves := math.Ceil(float64(treeAgents-1) / (treeLive - 1))
	path := time.Duration(waves*treeRounds+2) * treeTurn
	return []Figure{{
		Name: "agents/tree/wall", Value: wall.Seconds(), Unit: "s", Floor: path.Seconds(), Target: 1.1 * path.Seconds(),
		Note: fmt.Sprintf("%d agents, %d live, %d rounds; the floor is the critical path", treeAgents, treeLive, treeRounds),
	}}, nil
}

// crowd measures many simultaneous runs with a child each, and compares them with such runs one after the other.
func (w *world) crowd(ctx context.Context, d *daemon) ([]Figure, error) {
	w.model.set(plan{tool: "agent-plain", input: `{"prompt":"Look."}`, rounds: 1, below: oneRound})
	if _, _, err := d.stream(ctx, loneRuns); err != nil { // fills caches
		return nil, err
	}
	ids, sockets, err := d.open(ctx, loneRuns)
	defer closeAll(sockets)
	if err != nil {
		return nil, err
	}
	before, err := d.cpu()
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		begun := time.Now()
		if err := d.post(ctx, id, "go"); err != nil {
			return nil, err
		}
		if _, err := read(sockets[i], begun); err != nil {
			return nil, err
		}
	}
	between, err := d.cpu()
	if err != nil {
		return nil, err
	}
	_, many, err := d.open(ctx, crowdRuns)
	closeAll(many)
	if err != nil {
		return nil, err
	}
	opened, err := d.cpu()
	if err != nil {
		return nil, err
	}
	_, wall, err := d.stream(ctx, crowdRuns)
	if err != nil {
		return nil, err
	}
	after, err := d.cpu()
	if err != nil {
		return nil, err
	}
	alone := ms(between-before) / loneRuns
	crowd := (ms(after-opened) - ms(opened-between)) / crowdRuns // without the time to open the sessions
	return []Figure{
		{
			Name: "agents/crowd/cpu-per-run", Value: crowd, Unit: "ms", Floor: alone, Target: 1.2 * alone,
			Note: fmt.Sprintf("%d runs with a child each at once, none refused; the floor is one alone", crowdRuns),
		},
		{Name: "agents/crowd/wall", Value: wall.Seconds(), Unit: "s"},
	}, nil
}

// liveMemory measures the growth of the daemon's memory per working agent.
func (w *world) liveMemory(ctx context.Context, d *daemon) ([]Figure, error) {
	hold := make(chan struct{})
	w.model.set(plan{
		tool: "agent-plain", input: `{"prompt":"Look, CALL."}`, rounds: 1, width: treeLive - 1, below: &plan{hold: hold},
	})
	ids, sockets, err := d.open(ctx, memoryRuns)
	defer closeAll(sockets)
	if err != nil {
		close(hold)
		return nil, err
	}
	before, err := d.memory("VmRSS")
	if err != nil {
		close(hold)
		return nil, err
	}
	var group errgroup.Group
	for i, id := range ids {
		group.Go(func() error {
			if err := d.post(ctx, id, "go"); err != nil {
				return err
			}
			_, err := read(sockets[i], time.Now())
			return err
		})
	}
	for begun := time.Now(); ; {
		if arrived, _ := w.model.times(); len(arrived) == memoryRuns*treeLive {
			break
		}
		if time.Since(begun) > startLimit {
			close(hold)
			return nil, errors.Join(errors.New("the agents did not come to live at once"), group.Wait())
		}
		time.Sleep(10 * time.Millisecond)
	}
	during, err := d.memory("VmRSS")
	close(hold)
	if err := errors.Join(err, group.Wait()); err != nil {
		return nil, err
	}
	return []Figure{{
		Name:  "agents/memory-per-live-agent",
		Value: float64(during-before) / (memoryRuns * treeLive) / 1e6, Unit: "MB", Target: 2,
		Note: fmt.Sprintf("%d agents; all resident memory, of which the heap is a part", memoryRuns*treeLive),
	}}, nil
}
