package recall_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/recall"
)

func words(text string) []string {
	var list []string
	recall.Words(text, func(word string) { list = append(list, word) })
	return list
}

// Words are compared in one form: lower case, without accents, compounds with their parts, scripts without spaces as
// pairs of characters.
func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The quick-brown fox, v2!":     "the quick brown fox v2",
		"sessionCookieTTL":             "session cookie ttl sessioncookiettl",
		"HTTPServer retry_limit":       "http server httpserver retry limit",
		"Café CAFÉ cafe\u0301":         "cafe cafe cafe",
		"ÜberStraße":                   "uber straße uberstraße",
		"ﬁle ２０２６":                     "file 2026",
		"東京タワー":                        "東京 京タ タワ ワー",
		"版 v3":                         "版 v3",
		"Привет, МИР":                  "привет мир",
		"हिन्दी":                       "हिन्दी",
		"\xff\xfe":                     "",
		"...":                          "",
		strings.Repeat("x", 100):       strings.Repeat("x", 64),
		"한국어 검색":                       "한국어 검색",
		"naïveApproach über-cool 9:30": "naive approach naiveapproach uber cool 9 30",
	} {
		if got := strings.Join(words(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func index(notes map[string]string) (*recall.Index, map[string]*recall.Note) {
	var x recall.Index
	all := map[string]*recall.Note{}
	for name, text := range notes {
		all[name] = recall.Read(name, text)
		x.Add(all[name])
	}
	return &x, all
}

func names(hits []recall.Hit) []string {
	var list []string
	for _, h := range hits {
		list = append(list, h.Name)
	}
	return list
}

var someNotes = map[string]string{
	"memory/deploy.md": "# Deployments\n\nWe deploy on Tuesdays, after the backup has finished.\n",
	"memory/database.md": "# Database\n\nThe primary is restarted by `systemctl restart postgresql`.\n" +
		"Backups run at three.\n",
	"memory/style.md": "# Style\n\nErrors are sentences. Tests read like stories.\n",
	"MEMORY.md":       "# Notes\n\n- deploy.md: when we deploy\n- database.md: the database and its backups\n",
}

// The passage that answers most of a question comes first; other forms of a word, misspellings and parts of compounds
// are found.
func TestSearch(t *testing.T) {
	t.Parallel()
	x, _ := index(someNotes)
	for question, want := range map[string]string{
		"on which day do we deploy":       "memory/deploy.md",
		"restarting the postgres primary": "memory/database.md",
		"how are tests written":           "memory/style.md",
		"deploymnt tuesday":               "memory/deploy.md",
		"systemctlRestart":                "memory/database.md",
		"sentence":                        "memory/style.md",
	} {
		hits, total := x.Search(question, 3, 0)
		if len(hits) == 0 || hits[0].Name != want || total < len(hits) {
			t.Errorf("%s: got %v of %d, want %s first", question, names(hits), total, want)
		}
	}
	for _, question := range []string{"", "?!", "kubernetes", strings.Repeat("zebra ", 1000)} {
		if hits, total := x.Search(question, 3, 0); len(hits) != 0 || total != 0 {
			t.Errorf("%.20q: got %v", question, names(hits))
		}
	}
	if hits, _ := x.Search("the", 3, 0); len(hits) == 0 {
		t.Error("a question of function words only finds nothing")
	}
}

// A passage with a vector is found by the cosine of its vector and the question's, if that exceeds the score of the
// words. Vectors without a direction, and of another dimension or number, do not count.
func TestSearchNear(t *testing.T) {
	t.Parallel()
	var x recall.Index
	for name, v := range map[string][][]float32{
		"near.md": {{3, 4}}, "far.md": {{-3, -4}}, "zero.md": {{0, 0}}, "space.md": {{1, 2, 3}},
		"number.md": {{1, 1}, {1, 1}},
	} {
		n := recall.Read(name, "words of "+name+"\n")
		if texts := n.Texts(); len(texts) != 1 {
			t.Fatalf("%s has %d passages", name, len(texts))
		}
		n.Place(v)
		x.Add(n)
	}
	hits, total := x.SearchNear("zebra", []float32{6, 8}, 5, 0.1)
	if total != 1 || hits[0].Name != "near.md" || hits[0].Score != 1 {
		t.Errorf("got %v", hits)
	}
	if hits, _ := x.SearchNear("space", []float32{0, 0}, 5, 0.1); len(hits) != 1 || hits[0].Name != "space.md" {
		t.Errorf("by words: %v", hits)
	}
	if hits, _ := x.SearchNear("?", []float32{6, 8}, 5, 0.1); len(hits) != 1 || hits[0].Name != "near.md" {
		t.Errorf("a question without words: %v", hits)
	}
}

// Scores are from 0 to 1, fall along the list, reflect the answered part of the question, and lower scores than the
// limit are left out.
func TestScores(t *testing.T) {
	t.Parallel()
	x, _ := index(someNotes)
	all, _ := x.Search("deploy tuesdays backup", 10, 0)
	for i, h := range all {
		if h.Score <= 0 || h.Score >= 1 || i > 0 && h.Score > all[i-1].Score {
			t.Errorf("scores %v", all)
		}
	}
	if all[0].Score < 0.6 || all[0].Name != "memory/deploy.md" {
		t.Errorf("every word of the question scores %v", all[0])
	}
	part, _ := x.Search("deploy tuesdays backup kubernetes helm charts", 10, 0)
	if part[0].Score >= 0.5 || part[0].Score <= 0.2 {
		t.Errorf("half of the question scores %v", part[0].Score)
	}
	if hits, total := x.Search("deploy tuesdays backup", 10, 0.99); len(hits) != 0 || total != 0 {
		t.Errorf("above 0.99: %v", hits)
	}
	if hits, total := x.Search("deploy tuesdays backup", 1, 0); len(hits) != 1 || total != len(all) {
		t.Errorf("%d of %d, want 1 of %d", len(hits), total, len(all))
	}
}

// After any additions and removals an index answers as a new index of the remaining notes.
func TestRemovingLeavesNoTrace(t *testing.T) {
	t.Parallel()
	vocabulary := strings.Fields("deploy deploys deployment retry retries retrying server servers service " +
		"backup backups restore of the cache caching")
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 12), 1, 20).Draw(rt, "texts")
		var x, fresh recall.Index
		for i, text := range texts {
			keep := rapid.Bool().Draw(rt, "keep")
			name, content := fmt.Sprintf("n%02d", i), "# A\n"+strings.Join(text, " ")+"\n# B\n"+strings.Join(text, "\n")
			n := recall.Read(name, content)
			x.Add(n)
			if !keep {
				x.Remove(n)
				x.Remove(n)
				continue
			}
			fresh.Add(recall.Read(name, content))
		}
		if x.Len() != fresh.Len() {
			rt.Fatalf("%d notes, want %d", x.Len(), fresh.Len())
		}
		for _, question := range []string{"deploying servers", "retry of the backup", "cached", "restore"} {
			got, gotAll := x.Search(question, 50, 0)
			want, wantAll := fresh.Search(question, 50, 0)
			if gotAll != wantAll || !slices.EqualFunc(got, want, func(a, b recall.Hit) bool {
				return a.Name == b.Name && a.From == b.From && math.Abs(a.Score-b.Score) < 1e-3
			}) {
				rt.Fatalf("%s: %d %v, want %d %v", question, gotAll, got, wantAll, want)
			}
		}
	})
}

// Passages begin at headings, consist of whole lines, and end at a blank line if they are long; headings in code are
// text.
func TestPassages(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 60 {
		fmt.Fprintf(&long, "line marker %d\n", i)
		if i%10 == 9 {
			long.WriteString("\n")
		}
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty":         {"", []string{"1-1"}},
		"one":           {"marker", []string{"1-1"}},
		"headings":      {"# A\nmarker\n## B\nmarker\n# C\nmarker\n", []string{"1-2", "3-4", "5-6"}},
		"headings only": {"# marker\n## marker\nmarker\n", []string{"1-3"}},
		"code":          {"# A\n```sh\n# marker\n```\nmarker\n", []string{"1-5"}},
		"open code":     {"~~~\n# marker\n```\n# marker\n", []string{"1-4"}},
		"no heading":    {"#marker\n#!marker\n", []string{"1-2"}},
		"returns":       {"# A\r\nmarker\r\n# B\r\nmarker\r\n", []string{"1-2", "3-4"}},
		"long":          {long.String(), []string{"1-22", "23-44", "45-66"}},
		"long line":     {"marker " + strings.Repeat("x ", 5000) + "\nmarker\n", []string{"1-1", "2-2"}},
	} {
		x, _ := index(map[string]string{"marker": c.text})
		hits, _ := x.Search("marker", 100, 0)
		slices.SortFunc(hits, func(a, b recall.Hit) int { return a.From - b.From })
		var got []string
		joined := ""
		for _, h := range hits {
			got, joined = append(got, fmt.Sprintf("%d-%d", h.From, h.To)), joined+h.Text
		}
		if d := cmp.Diff(c.want, got); d != "" || joined != c.text {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// FuzzRead: passages form the text in order and without gaps; words are short, in lower case and not empty; nothing
// panics.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"# A\n\nb c\n", "```\n# x\n", "東京\u0300É\xff", strings.Repeat("#\n", 100), "a\r\rb\n\n\n",
		"ＦＵＬＬ ﷺ", "\u0e01\u0301A", "İı", "~~~~\n~~~\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		recall.Words(text, func(word string) {
			if word == "" || len([]rune(word)) > 64 {
				t.Errorf("word %q of %q", word, text)
			}
		})
		var x recall.Index
		x.Add(recall.Read("everywhere", text))
		hits, total := x.Search("everywhere", 1<<20, 0)
		slices.SortFunc(hits, func(a, b recall.Hit) int { return a.From - b.From })
		next, joined := 1, ""
		for _, h := range hits {
			if h.From != next || h.To < h.From || h.Score <= 0 || h.Score >= 1 {
				t.Fatalf("passage %d-%d with %v after line %d", h.From, h.To, h.Score, next-1)
			}
			next, joined = h.To+1, joined+h.Text
		}
		if joined != text || total != len(hits) {
			t.Fatalf("%d passages are %q, want %q", len(hits), joined, text)
		}
		x.Search(text, 10, 0)
	})
}

// A vocabulary beyond the limit drops words, but no note.
func TestVocabularyIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range recall.MaxVocabulary + 1000 {
		fmt.Fprintf(&b, "w%d\n", i)
	}
	x, _ := index(map[string]string{"a": b.String()})
	x.Add(recall.Read("last", "w1 and beyondtheend\n"))
	if hits, _ := x.Search("beyondtheend", 5, 0); len(hits) != 0 {
		t.Errorf("found %v", names(hits))
	}
	if hits, _ := x.Search("w1", 5, 0); !slices.Contains(names(hits), "last") {
		t.Errorf("found %v", names(hits))
	}
}
