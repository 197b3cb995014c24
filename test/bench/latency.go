package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	starts      = 7
	roundsEach  = 40
	roundRuns   = 5
	firstTokens = 60
)

// measureStart measures the start of kaged up on an existing data directory until it prints that it is ready, and the
// first model request of kaged run with that daemon. The floor of the first is the start of the embedded Postgres, of
// the second an empty process.
func measureStart(ctx context.Context, w *world) ([]Figure, error) {
	d, err := start(ctx, w.kaged, w.dir) // creates the data directory
	if err != nil {
		return nil, err
	}
	d.stop()
	var ready []time.Duration
	for range starts {
		begun := time.Now()
		d, err := start(ctx, w.kaged, w.dir)
		if err != nil {
			return nil, err
		}
		ready = append(ready, time.Since(begun))
		d.stop()
	}
	figures := []Figure{
		{
			Name: "start/up-to-ready", Value: ms(percentile(ready, 50)), Spread: spread(ready), Unit: "ms",
			Quoted: "codex 230, opencode 3000", Target: 500,
		},
	}
	more, err := w.with(ctx, func(d *daemon) ([]Figure, error) {
		var first, empty []time.Duration
		for range starts {
			w.model.set(plan{})
			begun := time.Now()
			cmd := exec.CommandContext(ctx, w.kaged, "run", "--project", w.project, "hello")
			cmd.Env = environ(w.dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("kaged run: %w: %s", err, out)
			}
			arrived, _ := w.model.times()
			first = append(first, arrived[0].Sub(begun))
			begun = time.Now()
			if err := exec.CommandContext(ctx, w.kaged, "version").Run(); err != nil {
				return nil, err
			}
			empty = append(empty, time.Since(begun))
		}
		return []Figure{
			{
				Name: "start/run-to-model", Value: ms(percentile(first, 50)), Spread: spread(first), Unit: "ms",
				Floor: ms(percentile(empty, 50)), Target: 150,
			},
		}, nil
	})
	return append(figures, more...), err
}

// measureToolRounds measures the time from the last byte of a model's answer that calls a tool to the arrival of the
// next request. The floor is the tool's work: reading the file, running the command.
func measureToolRounds(ctx context.Context, w *world) ([]Figure, error) {
	return w.with(ctx, func(d *daemon) ([]Figure, error) {
		var figures []Figure
		for _, tool := range []struct {
			name, input, quoted string
			target              float64
			floor               func() error
		}{
			{"file.read", `{"path":"small.txt","limit":ROUND}`, "pi 3.9, claude 25, opencode 126", 3, func() error {
				_, err := os.ReadFile(filepath.Join(w.project, "small.txt"))
				return err
			}},
			{"shell.bash", `{"command":"true ROUND"}`, "mastra 6.7, pi 7.8, codex 55, opencode 144", 5, func() error {
				return exec.CommandContext(ctx, "/bin/sh", "-c", "true").Run()
			}},
		} {
			gaps, err := w.rounds(ctx, d, tool.name, tool.input)
			if err != nil {
				return nil, err
			}
			var floors []time.Duration
			for range roundsEach {
				begun := time.Now()
				if err := tool.floor(); err != nil {
					return nil, err
				}
				floors = append(floors, time.Since(begun))
			}
			median := ms(percentile(gaps, 50))
			figures = append(figures,
				Figure{
					Name: "tool-round/" + tool.name + "/median", Value: median, Unit: "ms", Floor: ms(percentile(floors, 50)),
					Quoted: tool.quoted, Target: tool.target,
				},
				Figure{Name: "tool-round/" + tool.name + "/p95", Value: ms(percentile(gaps, 95)), Unit: "ms", Target: 3 * median})
		}
		return figures, nil
	})
}

func (w *world) rounds(ctx context.Context, d *daemon, tool, input string) ([]time.Duration, error) {
	var gaps []time.Duration
	for run := range roundRuns + 1 {
		w.model.set(plan{tool: tool, input: input, rounds: roundsEach})
		session, err := d.session(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := d.follow(ctx, session, "go"); err != nil {
			return nil, err
		}
		arrived, ended := w.model.times()
		if len(arrived) != roundsEach+1 {
			return nil, fmt.Errorf("%s: %d requests instead of %d", tool, len(arrived), roundsEach+1)
		}
		for i := range roundsEach {
			if run > 0 { // the first run fills caches
				gaps = append(gaps, arrived[i+1].Sub(ended[i]))
			}
		}
	}
	return gaps, nil
}

// measureFirstToken measures the time from the sending of a message to the first delta on the socket, less the same
// time of a direct call to the provider. One commit precedes the request: that of the message, because a posted
// message is durable, with the record of the request. Between the messages the bench measures two floors: a bare relay
// that commits one row, and the commit alone.
func measureFirstToken(ctx context.Context, w *world) ([]Figure, error) {
	return w.with(ctx, func(d *daemon) ([]Figure, error) {
		var through, direct, reaching, relayed, commits, flushes []time.Duration
		bare, err := w.committer(ctx)
		if err != nil {
			return nil, err
		}
		defer bare.close()
		session, err := d.session(ctx)
		if err != nil {
			return nil, err
		}
		socket, err := d.client.Attach(ctx, session, map[string]int64{}, false)
		if err != nil {
			return nil, err
		}
		defer socket.Close()
		for i := range firstTokens + 10 {
			w.model.set(plan{})
			begun := time.Now()
			if err := d.post(ctx, session, "go"); err != nil {
				return nil, err
			}
			r, err := read(socket, begun)
			if err != nil {
				return nil, err
			}
			took, err := callModel(ctx, w.model.url)
			if err != nil {
				return nil, err
			}
			over, err := callModel(ctx, bare.url)
			if err != nil {
				return nil, err
			}
			one, err := bare.commit(ctx)
			if err != nil {
				return nil, err
			}
			flush, err := bare.flush()
			if err != nil {
				return nil, err
			}
			if i >= 10 {
				arrived, _ := w.model.times()
				relayed = append(relayed, over)
				commits, flushes = append(commits, one), append(flushes, flush)
				through, direct = append(through, r.firstDelta), append(direct, took)
				reaching = append(reaching, arrived[0].Sub(r.begun))
			}
		}
		return []Figure{{
			Name: "first-token/added", Value: ms(percentile(through, 50) - percentile(direct, 50)), Unit: "ms",
			Floor: ms(percentile(direct, 50)), Target: 2,
		}, {
			Name: "first-token/post-to-model", Value: ms(percentile(reaching, 50)), Spread: spread(reaching), Unit: "ms",
			Floor: ms(percentile(commits, 50)), Note: "the floor is one commit of a bare Postgres",
		}, {
			Name: "first-token/bare-relay", Value: ms(percentile(relayed, 50) - percentile(direct, 50)), Spread: spread(relayed),
			Unit: "ms", Floor: ms(percentile(commits, 50)), Note: "one commit, then the model; the floor is the commit",
		}, {
			Name: "first-token/one-commit", Value: ms(percentile(commits, 50)), Spread: spread(commits), Unit: "ms",
			Floor: ms(percentile(flushes, 50)), Note: "a bare Postgres; the floor is the flush of a page of 8 KB",
		}}, nil
	})
}

// callModel makes one model call without kaged, at the model or at a relay, and returns the time to its first delta.
func callModel(ctx context.Context, url string) (time.Duration, error) {
	begun := time.Now()
	resp, err := askModel(ctx, url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var took time.Duration
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		if took == 0 && bytes.Contains(sc.Bytes(), []byte("text_delta")) {
			took = time.Since(begun)
		}
	}
	return took, nil
}

// askModel sends a small request to a model at url. The caller reads and closes the body of the answer.
func askModel(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages",
		strings.NewReader(`{"messages":[{"role":"user"}]}`))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}
