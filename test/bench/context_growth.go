package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kaged.dev/pkg/client"
)

// The sizes of the measurement of a conversation's growth.
const (
	longRuns    = 10 // of longRounds steps each, before the measured ones
	turns       = 3  // measured runs of the long session, and as many of short ones between them
	longRounds  = 96
	firstRuns   = 6 // sessions in each turn
	firstRounds = 9
)

// longSession measures the time from the last byte of an answer that reads a file to the next request, less the time of
// a client that posts a body of the same size, after 20 messages, 200 and 2,000. The runs of all lengths take turns,
// because the load of the machine changes. The CPU time is that of kaged and Postgres, less that of a client in a
// process of its own which posts the bodies. In the same way it measures the time from a message to the model.
func (w *world) longSession(ctx context.Context, d *daemon) ([]Figure, error) {
	session, err := d.session(ctx)
	if err != nil {
		return nil, err
	}
	fresh, err := d.session(ctx)
	if err != nil {
		return nil, err
	}
	for range longRuns {
		if _, err := w.steps(ctx, d, session, longRounds); err != nil {
			return nil, err
		}
	}
	var first, early, late steps
	for range turns {
		if err := w.firstSteps(ctx, d, &first); err != nil {
			return nil, err
		}
		short, err := d.session(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := w.steps(ctx, d, short, longRounds); err != nil { // the first run fills caches
			return nil, err
		}
		for _, one := range []struct {
			session string
			of      *steps
		}{{short, &early}, {session, &late}} {
			more, err := w.steps(ctx, d, one.session, longRounds)
			if err != nil {
				return nil, err
			}
			one.of.add(more)
		}
	}
	figures, err := w.grown(ctx, &first, &early, &late)
	if err != nil {
		return nil, err
	}
	few, many, err := w.toModel(ctx, d, fresh, session)
	if err != nil {
		return figures, err
	}
	asked, err := d.estimateOf(ctx, session)
	if err != nil {
		return figures, err
	}
	return append(figures, asked,
		few.figure("context/post-to-model/40-messages"), many.figure("context/post-to-model/2000-messages"),
		Figure{
			Name: "context/post-to-model/2000-messages/40", Value: ms(many.added()), Unit: "ms", Floor: ms(many.bare),
			Peer: "40 messages", Rival: ms(few.added()), Target: 1.1,
		}), nil
}

// estimateOf measures the requests for the estimate of a session's context while nothing changes.
func (d *daemon) estimateOf(ctx context.Context, session string) (Figure, error) {
	var took []time.Duration
	for range 21 {
		began := time.Now()
		if err := d.client.Do(ctx, http.MethodGet, "/api/v1/sessions/"+session+"/context-estimate", nil, nil); err != nil {
			return Figure{}, err
		}
		took = append(took, time.Since(began))
	}
	return Figure{
		Name: "context/estimate-route", Value: ms(percentile(took[1:], 50)), Unit: "ms", Target: 5,
		Note: fmt.Sprintf("about 2,000 messages; the first request took %.1f ms", ms(took[0])),
	}, nil
}

// firstSteps makes runs of sessions with about 20 messages.
func (w *world) firstSteps(ctx context.Context, d *daemon, first *steps) error {
	for range firstRuns {
		session, err := d.session(ctx)
		if err != nil {
			return err
		}
		for run := range 2 { // the first one has fewer messages
			more, err := w.steps(ctx, d, session, firstRounds)
			if err != nil {
				return err
			}
			if run > 0 {
				first.add(more)
			}
		}
	}
	return nil
}

// grown returns the figures of the steps after 20 messages, 200 and 2,000.
func (w *world) grown(ctx context.Context, first, early, late *steps) ([]Figure, error) {
	poster, err := startPeer(ctx, "poster", w.model.url)
	if err != nil {
		return nil, err
	}
	defer poster.end()
	var added [3]float64
	for i, s := range []*steps{first, early, late} {
		if s.floor, err = w.bare(ctx, s.size()); err != nil {
			return nil, err
		}
		if s.posting, err = w.posting(ctx, poster, s.size()); err != nil {
			return nil, err
		}
		added[i] = ms(percentile(s.gaps, 50) - s.floor)
	}
	spent, spentLate := early.cpu()-ms(early.posting), late.cpu()-ms(late.posting)
	return []Figure{
		{
			Name: "context/step-added/20-messages", Value: added[0], Spread: spread(first.gaps), Unit: "ms",
			Floor: ms(first.floor), Note: "above a client that posts the same body",
		},
		{
			Name: "context/step-added/200-messages", Value: added[1], Spread: spread(early.gaps), Unit: "ms",
			Floor: ms(early.floor), Note: "above a client that posts the same body",
		},
		{
			Name: "context/step-added/2000-messages", Value: added[2], Spread: spread(late.gaps), Unit: "ms",
			Floor: ms(late.floor), Peer: "200 messages", Rival: added[1], Target: 1.1,
		},
		{
			Name: "context/step-added/2000-messages/20", Value: added[2], Unit: "ms", Floor: ms(late.floor),
			Peer: "20 messages", Rival: added[0], Target: 1.1,
		},
		{
			Name: "context/step-cpu/2000-messages", Value: spentLate, Unit: "ms", Floor: ms(late.posting),
			Peer: "200 messages", Rival: spent, Target: 1.1,
			Note: "of kaged and Postgres, above the CPU time of a client that posts the same body",
		},
	}, nil
}

// steps are the steps of runs: the times from the end of each answer to the next request, the sizes of the requests in
// bytes, and the CPU time of the daemon and its processes. floor and posting are the time and the CPU time of a client
// that posts a body of the mean size.
type steps struct {
	gaps           []time.Duration
	sizes          []int
	used           time.Duration
	floor, posting time.Duration
}

func (s *steps) add(more steps) {
	s.gaps, s.sizes, s.used = append(s.gaps, more.gaps...), append(s.sizes, more.sizes...), s.used+more.used
}

// cpu returns the CPU time of a step in milliseconds.
func (s *steps) cpu() float64 { return ms(s.used) / float64(len(s.gaps)) }

// size returns the mean size of a request.
func (s *steps) size() int {
	sum := 0
	for _, n := range s.sizes {
		sum += n
	}
	return sum / len(s.sizes)
}

// steps makes a run of a number of steps.
func (w *world) steps(ctx context.Context, d *daemon, session string, rounds int) (steps, error) {
	w.model.set(plan{tool: "file.read", input: `{"path":"small.txt","limit":ROUND}`, rounds: rounds})
	before, err := d.cpu()
	if err != nil {
		return steps{}, err
	}
	if _, err := d.follow(ctx, session, "go"); err != nil {
		return steps{}, err
	}
	after, err := d.cpu()
	if err != nil {
		return steps{}, err
	}
	arrived, ended := w.model.times()
	if len(arrived) != rounds+1 {
		return steps{}, fmt.Errorf("a run has %d requests instead of %d", len(arrived), rounds+1)
	}
	of := steps{sizes: w.model.sizes(), used: after - before}
	for i := range rounds {
		of.gaps = append(of.gaps, arrived[i+1].Sub(ended[i]))
	}
	return of, nil
}

// postings is the number of bodies that a [poster] posts to measure its CPU time.
const postings = 300

// posting returns the CPU time that a client in its own process needs to post a body of a size and to read the answer.
func (w *world) posting(ctx context.Context, p *barePeer, size int) (time.Duration, error) {
	w.model.set(plan{tool: "file.read", input: `{"path":"small.txt","limit":ROUND}`, rounds: longRounds})
	url := fmt.Sprintf("http://%s/?size=%d&count=%d", p.HTTP, size, postings)
	before, err := cpuOf(p.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the bare client answers %s", resp.Status)
	}
	after, err := cpuOf(p.cmd.Process.Pid)
	return (after - before) / postings, err
}

// poster is a client of the model at a URL: it posts as many bodies of a size as a request asks for.
type poster string

func (p poster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, errSize := strconv.Atoi(r.FormValue("size"))
	count, errCount := strconv.Atoi(r.FormValue("count"))
	err := errors.Join(errSize, errCount)
	body := bodyOf(max(size, 0))
	for i := 0; i < count && err == nil; i++ {
		err = postBody(r.Context(), string(p), body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// bodyOf returns the body of a request of about a size.
func bodyOf(size int) []byte {
	return []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`)
}

// postBody posts a body to the model at url and reads the answer.
func postBody(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// reach is the times from posts to the arrival of their requests, and the median time of a client that posts a body of
// the size of the last request.
type reach struct {
	took []time.Duration
	size int
	bare time.Duration
}

// added is the time above the bare client.
func (r *reach) added() time.Duration { return percentile(r.took, 50) - r.bare }

// figure is what kaged adds to a message before the model has it: with a commit, which the bare client does not make.
func (r *reach) figure(name string) Figure {
	return Figure{
		Name: name, Value: ms(r.added()), Spread: spread(r.took), Unit: "ms", Floor: ms(r.bare), Target: 1,
		Note: "above a client that posts the same body, with one commit",
	}
}

// toModel posts messages, which the model answers at once, to a short and a long session in turns. The first posts fill
// caches and are not measured.
func (w *world) toModel(ctx context.Context, d *daemon, short, long string) (few, many reach, err error) {
	const unmeasured, posts = 2, 20
	of := []*reach{&few, &many}
	var sockets []*client.Socket
	defer func() { closeAll(sockets) }()
	for _, session := range []string{short, long} {
		socket, err := d.client.Attach(ctx, session, map[string]int64{}, false)
		if err != nil {
			return few, many, err
		}
		sockets = append(sockets, socket)
	}
	for post := range unmeasured + posts {
		for i, session := range []string{short, long} {
			w.model.set(plan{})
			begun := time.Now()
			if err := d.post(ctx, session, "go"); err != nil {
				return few, many, err
			}
			if _, err := read(sockets[i], begun); err != nil {
				return few, many, err
			}
			arrived, _ := w.model.times()
			of[i].size = w.model.sizes()[0]
			if post >= unmeasured {
				of[i].took = append(of[i].took, arrived[0].Sub(begun))
			}
		}
	}
	for _, r := range of {
		if r.bare, err = w.bare(ctx, r.size); err != nil {
			return few, many, err
		}
	}
	return few, many, nil
}

// bare posts a body of a size to the model without kaged and returns the median time until it has arrived.
func (w *world) bare(ctx context.Context, size int) (time.Duration, error) {
	const tries = 30
	body := bodyOf(size)
	w.model.set(plan{})
	var took []time.Duration
	for i := range tries {
		begun := time.Now()
		if err := postBody(ctx, w.model.url, body); err != nil {
			return 0, err
		}
		arrived, _ := w.model.times()
		took = append(took, arrived[i].Sub(begun))
	}
	return percentile(took, 50), nil
}
