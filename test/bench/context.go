package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tiktoken-go/tokenizer"

	"kaged.dev/pkg/client"
)

// The sizes of the measurements of the context.
const (
	longRuns    = 10 // of longRounds steps each, before the measured ones
	turns       = 3  // measured runs of the long session, and as many of short ones between them
	longRounds  = 96
	taughtCalls = 3  // answers with counts that correct the estimate
	samples     = 12 // conversations of each kind
	sampleBytes = 6000
)

// measureContext measures estimates and plans of 5,000 messages, the cost of a step at the beginning and the end of a
// long conversation, the error of estimates against a tokenizer, and the share of prompts in providers' caches.
func measureContext(ctx context.Context, w *world) ([]Figure, error) {
	figures, err := planning(ctx)
	if err != nil {
		return figures, err
	}
	more, err := w.with(ctx, func(d *daemon) ([]Figure, error) {
		figures, err := w.longSession(ctx, d)
		if err != nil {
			return figures, err
		}
		more, err := w.estimates(ctx, d)
		return append(figures, more...), err
	})
	figures = append(figures, more...)
	if err != nil {
		return figures, err
	}
	more, err = w.cachedShares(ctx)
	return append(figures, more...), err
}

// compactPackage has the benchmarks of estimates and plans.
const compactPackage = "kaged.dev/services/harness/internal/core/compact"

var perPlan = regexp.MustCompile(`(?m)^Benchmark(EstimateWarm|Plan|CachedShare/kaged|CachedShare/sliding)` +
	`-?\d*\s+\d+\s+([0-9.]+) ns/op(?:\s+([0-9.]+) %cached)?`)

// planning runs the benchmarks of the core, without requests.
func planning(ctx context.Context) ([]Figure, error) {
	out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-benchtime", "200ms", "-bench",
		"^Benchmark(EstimateWarm|Plan|CachedShare)$", compactPackage).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test %s: %w: %s", compactPackage, err, out)
	}
	got := map[string]float64{}
	for _, m := range perPlan.FindAllSubmatch(out, -1) {
		value := m[2]
		if len(m[3]) > 0 {
			value = m[3]
		}
		if got[string(m[1])], err = strconv.ParseFloat(string(value), 64); err != nil {
			return nil, err
		}
	}
	if len(got) != 4 {
		return nil, fmt.Errorf("go test %s has no figures: %s", compactPackage, out)
	}
	return []Figure{
		{
			Name: "context/estimate-warm", Value: got["EstimateWarm"] / 1e6, Unit: "ms", Target: 5,
			Note: "5,000 messages, 20 MB",
		},
		{Name: "context/plan", Value: got["Plan"] / 1e6, Unit: "ms", Target: 50, Note: "5,000 messages, 20 MB"},
		{
			Name: "context/not-cached/computed", Value: 100 - got["CachedShare/kaged"], Unit: "%", Peer: "a sliding window",
			Rival: 100 - got["CachedShare/sliding"], Target: 1,
			Note: "300 steps in 32,000 tokens, what a prefix cache has to read anew",
		},
	}, nil
}

// longSession measures the time from the last byte of an answer that reads a file to the next request, less the time of
// a client that posts a body of the same size, after 200 messages and after 2,000. The runs of both lengths take turns,
// because the load of the machine changes. In the same way it measures the time from a message to the model.
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
		if _, err := w.steps(ctx, d, session); err != nil {
			return nil, err
		}
	}
	var early, late steps
	for range turns {
		short, err := d.session(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := w.steps(ctx, d, short); err != nil { // the first run fills caches
			return nil, err
		}
		for _, one := range []struct {
			session string
			of      *steps
		}{{short, &early}, {session, &late}} {
			more, err := w.steps(ctx, d, one.session)
			if err != nil {
				return nil, err
			}
			one.of.gaps, one.of.size = append(one.of.gaps, more.gaps...), more.size
			one.of.used += more.used
		}
	}
	floor, err := w.bare(ctx, early.size)
	if err != nil {
		return nil, err
	}
	lateFloor, err := w.bare(ctx, late.size)
	if err != nil {
		return nil, err
	}
	few, many := percentile(early.gaps, 50)-floor, percentile(late.gaps, 50)-lateFloor
	first, last, err := w.toModel(ctx, d, fresh, session)
	if err != nil {
		return nil, err
	}
	return []Figure{
		{
			Name: "context/step-added/200-messages", Value: ms(few), Spread: spread(early.gaps), Unit: "ms",
			Floor: ms(floor), Note: "above a client that posts the same body",
		},
		{
			Name: "context/step-added/2000-messages", Value: ms(many), Spread: spread(late.gaps), Unit: "ms",
			Floor: ms(lateFloor), Peer: "200 messages", Rival: ms(few), Target: 1.1,
		},
		{
			Name: "context/step-cpu/2000-messages", Value: late.cpu(), Unit: "ms", Peer: "200 messages", Rival: early.cpu(),
			Target: 1.1, Note: "of kaged and Postgres; other load changes it less than the time",
		},
		{Name: "context/post-to-model/40-messages", Value: ms(first.added()), Unit: "ms", Floor: ms(first.bare)},
		{
			Name: "context/post-to-model/2000-messages", Value: ms(last.added()), Unit: "ms", Floor: ms(last.bare),
			Peer: "40 messages", Rival: ms(first.added()), Target: 1.1,
		},
	}, nil
}

// steps are the steps of runs: the times from the end of each answer to the next request, the size of the last request
// in bytes, and the CPU time of the daemon and its processes.
type steps struct {
	gaps []time.Duration
	size int
	used time.Duration
}

// cpu returns the CPU time of a step in milliseconds.
func (s *steps) cpu() float64 { return ms(s.used) / float64(len(s.gaps)) }

// steps makes a run of longRounds steps.
func (w *world) steps(ctx context.Context, d *daemon, session string) (steps, error) {
	w.model.set(plan{tool: "file.read", input: `{"path":"small.txt","limit":ROUND}`, rounds: longRounds})
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
	if len(arrived) != longRounds+1 {
		return steps{}, fmt.Errorf("a run has %d requests instead of %d", len(arrived), longRounds+1)
	}
	sizes := w.model.sizes()
	of := steps{size: sizes[len(sizes)-1], used: after - before}
	for i := range longRounds {
		of.gaps = append(of.gaps, arrived[i+1].Sub(ended[i]))
	}
	return of, nil
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
	body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`)
	w.model.set(plan{})
	var took []time.Duration
	for i := range tries {
		begun := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.model.url+"/v1/messages", bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			return 0, err
		}
		arrived, _ := w.model.times()
		took = append(took, arrived[i].Sub(begun))
	}
	return percentile(took, 50), nil
}

// estimates measures the difference between the estimate of a conversation and a tokenizer's count, after three answers
// with counts of the tokenizer. The texts of the last message differ from those that have corrected the estimate.
func (w *world) estimates(ctx context.Context, d *daemon) ([]Figure, error) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return nil, err
	}
	count := func(body []byte) int { return countTexts(codec, body) }
	var figures []Figure
	for _, kind := range kinds {
		random := rand.New(rand.NewPCG(7, 11))
		var wrong []float64
		for range samples {
			session, err := d.session(ctx)
			if err != nil {
				return figures, err
			}
			for range taughtCalls + 1 {
				w.model.set(plan{count: count})
				if _, err := d.follow(ctx, session, kind.text(random)); err != nil {
					return figures, err
				}
			}
			var estimate struct {
				Input int64 `json:"input_tokens"`
			}
			path := "/api/v1/sessions/" + session + "/context-estimate"
			if err := d.client.Do(ctx, http.MethodGet, path, nil, &estimate); err != nil {
				return figures, err
			}
			w.model.set(plan{count: count})
			if _, err := d.follow(ctx, session, "x"); err != nil {
				return figures, err
			}
			counted := w.model.counted()
			wrong = append(wrong, 100*math.Abs(float64(estimate.Input)-float64(counted))/float64(counted))
		}
		figures = append(figures, Figure{
			Name: "context/estimate-error/" + kind.name, Value: p95(wrong), Unit: "%", Target: 8,
			Note: "p95, beside o200k_base after three calls",
		})
	}
	return figures, nil
}

// p95 returns the 95th percentile of a sample.
func p95(sample []float64) float64 {
	slices.Sort(sample)
	return sample[min(len(sample)*95/100, len(sample)-1)]
}

// countTexts counts the tokens of the strings of a request.
func countTexts(codec tokenizer.Codec, body []byte) int {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return 0
	}
	total := 0
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			ids, _, err := codec.Encode(v)
			if err == nil {
				total += len(ids)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(value)
	return total
}

// kinds are the kinds of texts of conversations.
var kinds = []struct {
	name string
	text func(*rand.Rand) string
}{
	{"code", func(r *rand.Rand) string {
		return sentences(r, "\n", func() string {
			return fmt.Sprintf("\tif err := %s.%s(ctx, %q, %d); err != nil {\n\t\treturn nil, fmt.Errorf(\"%s: %%w\", err)\n\t}",
				word(r), capital(word(r)), word(r), r.IntN(4096), word(r))
		})
	}},
	{"json", func(r *rand.Rand) string {
		return sentences(r, ",", func() string {
			return fmt.Sprintf(`{"%s_id":%d,"%s":"%s-%s","ratio":%.4f,"ok":%t}`, word(r), r.IntN(1e6), word(r), word(r), word(r),
				r.Float64(), r.IntN(2) == 0)
		})
	}},
	{"cjk", func(r *rand.Rand) string {
		const signs = "的一是不了人我在有他这中大来上个国和也子时道说出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从"
		runes := []rune(signs)
		return sentences(r, "。", func() string {
			var b strings.Builder
			for range 12 + r.IntN(12) {
				b.WriteRune(runes[r.IntN(len(runes))])
			}
			return b.String()
		})
	}},
	{"base64", func(r *rand.Rand) string {
		return sentences(r, "\n", func() string {
			raw := make([]byte, 57)
			for i := range raw {
				raw[i] = byte(r.Uint32())
			}
			return base64.StdEncoding.EncodeToString(raw)
		})
	}},
}

// sentences joins pieces up to the size of a sample.
func sentences(r *rand.Rand, between string, next func() string) string {
	var b strings.Builder
	for size := sampleBytes/2 + r.IntN(sampleBytes); b.Len() < size; {
		b.WriteString(next() + between)
	}
	return b.String()
}

func capital(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// word returns a word as used in programs.
func word(r *rand.Rand) string {
	words := strings.Fields("session store lease frame reader buffer token budget invoke publish epoch " +
		"workspace cage harness relay outbox ordinal compact window retry fence attach channel prompt summary ledger " +
		"operator delegate verdict")
	return words[r.IntN(len(words))]
}
