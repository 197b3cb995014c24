package bench

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tiktoken-go/tokenizer"
)

// The sizes of the measurements of the context.
const (
	taughtCalls = 3  // answers with counts that correct the estimate
	samples     = 12 // conversations of each kind
	sampleBytes = 6000
)

// measureContext measures estimates and plans of 5,000 messages, the cost of a step at the beginning and the end of a
// long conversation, the error of estimates against a tokenizer, and the share of prompts in providers' caches.
func measureContext(ctx context.Context, w *world) ([]Figure, error) {
	if !w.run.MatchString("context") { // a part was chosen
		return w.with(ctx, func(d *daemon) ([]Figure, error) { return w.longSession(ctx, d) })
	}
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
