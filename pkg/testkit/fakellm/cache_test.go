package fakellm

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/llm"
)

// cacheBench is a cache with a clock of the test.
type cacheBench struct {
	*cache
	at time.Time
}

func newCacheBench() *cacheBench {
	b := &cacheBench{at: time.Unix(1_700_000_000, 0)}
	b.cache = &cache{now: func() time.Time { return b.at }, entries: map[[sha256.Size]byte]time.Time{}}
	return b
}

// counts returns the usage of a request as a line, in hundreds of tokens: read, written, and sent without the cache.
func (b *cacheBench) counts(format Format, key, body string) string {
	u := b.usage(&Request{
		Format: format, Model: "claude-sonnet-4-5", Header: http.Header{"X-Api-Key": {key}}, Body: []byte(body),
	})
	round := func(n int64) int64 { return (n + 50) / 100 * 100 }
	return fmt.Sprintf("%d %d %d", round(u.CacheRead), round(u.CacheWrite), round(u.Input))
}

// marked returns a request of Anthropic's format, each text a message of the user. A text that ends in * has a cache
// mark.
func marked(texts ...string) string {
	var blocks []string
	for _, text := range texts {
		plain, mark := strings.CutSuffix(text, "*")
		end := ""
		if mark {
			end = `,"cache_control":{"type":"ephemeral"}`
		}
		blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":%q%s}`, plain, end))
	}
	return `{"messages":[{"role":"user","content":[` + strings.Join(blocks, ",") + `]}]}`
}

// tokens returns a text of about n tokens that begins with name.
func tokens(name string, n int) string { return name + strings.Repeat("abc ", n) }

func TestAnthropicCachesUpToItsMarks(t *testing.T) {
	long, more, rest := tokens("a", 2000), tokens("b", 1000), tokens("c", 500)
	many := make([]string, 30)
	for i := range many {
		many[i] = tokens(fmt.Sprint(i), 100)
	}
	unseen := append(append([]string{long}, many...), rest+"*")
	seen := append(append([]string{long + "*"}, many...), rest+"*")
	b := newCacheBench()
	for _, c := range []struct {
		name, key, body, want string
	}{
		{"the first request writes up to its mark", "k", marked(long+"*", rest), "0 2000 500"},
		{"the next one reads that and writes the rest", "k", marked(long, more+"*", rest), "2000 1000 500"},
		{"the mark is no part of the prompt", "k", marked(long, more+"*", rest), "3000 0 500"},
		{"another beginning reads nothing", "k", marked("x"+long, more+"*"), "0 3000 0"},
		{"another key reads nothing", "other", marked(long, more+"*"), "0 3000 0"},
		{"a short prompt is not cached", "k", marked(tokens("s", 900) + "*"), "0 0 900"},
		{"no entry ends within 20 blocks", "k", marked(unseen...), "0 5700 0"},
		{"an earlier mark finds it", "k2", marked(long + "*"), "0 2000 0"},
		{"and reads it", "k2", marked(seen...), "2000 3700 0"},
		{"without a mark nothing is cached", "k", marked(long, more), "0 0 3000"},
	} {
		if got := b.counts(Anthropic, c.key, c.body); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	b.at = b.at.Add(cacheKept + time.Second)
	if got := b.counts(Anthropic, "k", marked(long+"*")); got != "0 2000 0" {
		t.Errorf("after five minutes: %s", got)
	}
}

func TestAnthropicRefusesFiveMarks(t *testing.T) {
	if got := tooManyMarks([]byte(marked("a*", "b*", "c*", "d*"))); got != "" {
		t.Error(got)
	}
	if got := tooManyMarks([]byte(marked("a*", "b*", "c*", "d*", "e*"))); !strings.Contains(got, "Found 5") {
		t.Errorf("got %q", got)
	}
}

func TestOpenAICachesPrefixes(t *testing.T) {
	body := func(cacheKey string, texts ...string) string {
		return fmt.Sprintf(`{"prompt_cache_key":%q,"messages":[{"role":"user","content":%q}]}`, cacheKey,
			strings.Join(texts, ""))
	}
	long, more := tokens("a", 2000), tokens("b", 1000)
	b := newCacheBench()
	read := func(body string) int64 {
		return b.usage(&Request{Format: OpenAI, Body: []byte(body), Header: http.Header{}}).CacheRead
	}
	for _, c := range []struct {
		name, body string
		want       int64
	}{
		{"the first request", body("s", long), 0},
		{"the same again", body("s", long), 15 * prefixStep},
		{"a continuation", body("s", long, more), 15 * prefixStep},
		{"its continuation", body("s", long, more, long), 23 * prefixStep},
		{"another end after 1,100 tokens", body("s", long[:4400], more, more), 8 * prefixStep},
		{"another end after 900 tokens", body("s", long[:3600], more), 0},
		{"another prompt_cache_key", body("t", long), 0},
		{"a short prompt", body("u", long[:3600]), 0},
		{"a short prompt again", body("u", long[:3600]), 0},
	} {
		if got := read(c.body); got != c.want {
			t.Errorf("%s: %d tokens read, want %d", c.name, got, c.want)
		}
	}
	b.at = b.at.Add(cacheKept + time.Second)
	if got := read(body("s", long)); got != 0 {
		t.Errorf("after five minutes: %d tokens read", got)
	}
	u := b.usage(&Request{Format: OpenAI, Body: []byte(body("s", long)), Header: http.Header{}})
	if want := (llm.Usage{Input: u.Input, CacheRead: u.CacheRead}); u != want || u.Input+u.CacheRead < 2000 {
		t.Errorf("usage %+v", u)
	}
}
