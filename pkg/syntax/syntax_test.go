//go:build cgo

package syntax_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"kaged.dev/pkg/syntax"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parser(t testing.TB) *syntax.Parser {
	t.Helper()
	p, err := syntax.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Every grammar parses its sample, and a missing grammar is refused by name (T-FM-01, P1).
func TestSelfTest(t *testing.T) {
	t.Parallel()
	if err := syntax.SelfTest(t.Context(), syntax.Languages()); err != nil {
		t.Fatal(err)
	}
	missing := &syntax.Language{Name: "cobol"}
	if err := syntax.SelfTest(t.Context(), []*syntax.Language{syntax.Lookup("go"), missing}); err == nil ||
		!strings.Contains(err.Error(), "cobol") {
		t.Errorf("a grammar that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := syntax.SelfTest(ctx, syntax.Languages()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// heredocs returns a call in Ruby with one heredoc for each length of a word. Their text is no Ruby.
func heredocs(words ...int) string {
	begin, bodies := "f(1", ""
	for i, n := range words {
		word := strings.Repeat(string(rune('A'+i)), n)
		begin, bodies = begin+", <<"+word, bodies+")\n"+word+"\n"
	}
	return begin + ")\n" + bodies
}

// A text that a grammar's scanner cannot handle does not end the process, and is perhaps read wrongly. Texts that are
// nested less deeply, or have shorter words, are read as they were.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string {
		return "val x = " + strings.Repeat(`"${`, depth) + "1" + strings.Repeat(`}"`, depth) + "\n"
	}
	p := parser(t)
	for _, c := range []struct {
		lang, text string
		valid      bool // must have no syntax error
	}{
		{"kotlin", nested(200), true},
		{"kotlin", nested(1023), true},
		{"kotlin", nested(1025), false},
		{"kotlin", nested(3000), false},
		{"kotlin", strings.Repeat(`"""${`, 3000), false},
		{"ruby", heredocs(255), true},
		{"ruby", heredocs(100, 200), true},
		{"ruby", heredocs(256), false},
		{"ruby", heredocs(300), false},
		{"ruby", heredocs(100, 300), false},
		{"ruby", heredocs(511), false},
		{"ruby", heredocs(1019), false},
		{"ruby", heredocs(1020), false},
		{"ruby", strings.Repeat("<<A\n", 3000), false},
	} {
		tree, err := p.Parse(t.Context(), syntax.Lookup(c.lang), []byte(c.text), math.MaxInt32)
		if err != nil {
			t.Errorf("%s, %.40q of %d bytes: %v", c.lang, c.text, len(c.text), err)
		} else if c.valid && tree.Failure() >= 0 {
			t.Errorf("%s, %.40q of %d bytes: a syntax error", c.lang, c.text, len(c.text))
		}
	}
}

// A scanner's state that is larger than the parser's room for it, 1024 bytes, is dropped and not written past the room:
// the text is read wrongly. A state that just fits is stored.
func TestStatesAreBounded(t *testing.T) {
	t.Parallel()
	bash := func(n int) string {
		word := strings.Repeat("A", n)
		return "cat <<" + word + "\ntext\n" + word + "\n"
	}
	yaml := func(depth int) string {
		var b strings.Builder
		for i := range depth {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String() + strings.Repeat(" ", depth) + "b\n"
	}
	p := parser(t)
	for _, c := range []struct {
		lang, text string
		fits       bool
	}{
		{"bash", bash(1012), true},
		{"bash", bash(1013), false},
		{"bash", bash(1014), false},
		{"bash", bash(1015), false},
		{"ruby", heredocs(252, 252, 252, 250), true},
		{"ruby", heredocs(252, 252, 252, 251), false},
		{"yaml", yaml(253), true},
		{"yaml", yaml(254), false},
	} {
		tree, err := p.Parse(t.Context(), syntax.Lookup(c.lang), []byte(c.text), math.MaxInt32)
		if err != nil {
			t.Errorf("%s, %d bytes: %v", c.lang, len(c.text), err)
		} else if read := tree.Failure() < 0; read != c.fits {
			t.Errorf("%s, %d bytes: read without an error: %v, want %v", c.lang, len(c.text), read, c.fits)
		}
	}
}

// The last extension of a file determines its language.
func TestLanguageOfAFile(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"a.ts": "typescript", "a/b.test.mts": "typescript", "x.tsx": "tsx", "x.jsx": "javascript", "a.h": "c", "a.hpp": "cpp",
		"main.tf": "hcl", "a.yml": "yaml",
	} {
		if l := syntax.Of(file); l == nil || l.Name != want {
			t.Errorf("%s is %v", file, l)
		}
	}
	for _, file := range []string{"a", "Makefile", ".ts/x", "a.ts.bak", "", ".env", "a/.ts"} {
		if l := syntax.Of(file); l != nil {
			t.Errorf("%s is %s", file, l.Name)
		}
	}
}

// A tree has parents before children, with the end of each subtree.
func TestLayout(t *testing.T) {
	t.Parallel()
	tree, err := parser(t).Parse(t.Context(), syntax.Lookup("javascript"), []byte("f(a, /* c */ 1)"), 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range tree.Nodes {
		n := &tree.Nodes[i]
		name := tree.Language.Kind(n.Symbol)
		if n.Is(syntax.Extra) {
			name += "!"
		}
		got = append(got, name)
	}
	want := "program expression_statement call_expression identifier arguments ( identifier , comment! number )"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s", s)
	}
	if n := tree.Nodes[2]; n.Next != 11 || len(tree.Children(2)) != 2 || string(tree.Source(4)) != "(a, /* c */ 1)" {
		t.Errorf("%+v %v %q", n, tree.Children(2), tree.Source(4))
	}
	if i := tree.Failure(); i >= 0 {
		t.Errorf("node %d is in error", i)
	}
	if tree, err = parser(t).Parse(t.Context(), syntax.Lookup("javascript"), []byte("f(a"), 100); err != nil ||
		tree.Failure() < 0 {
		t.Errorf("no error in half a call: %v", err)
	}
}

// An empty text parses; a too large one is refused.
func TestSizes(t *testing.T) {
	t.Parallel()
	p := parser(t)
	for _, lang := range syntax.Languages() {
		tree, err := p.Parse(t.Context(), lang, nil, 10)
		if err != nil || len(tree.Nodes) == 0 {
			t.Errorf("%s: %v", lang.Name, err)
		}
	}
	if _, err := p.Parse(t.Context(), syntax.Lookup("go"), []byte("package a; var x = 1"),
		5); !errors.Is(err, syntax.ErrTooLarge) {
		t.Errorf("too many nodes: %v", err)
	}
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	if _, err := p.Parse(t.Context(), syntax.Lookup("json"), []byte(deep), 1<<20); err != nil {
		t.Error(err)
	}
}

// A text that takes far more memory than sources of its size is too large, and the next text is parsed.
func TestMemoryOfAParse(t *testing.T) {
	t.Parallel()
	p := parser(t)
	lang := syntax.Lookup("python")
	hostile := []byte(strings.Repeat("(", 3<<20))
	if _, err := p.Parse(t.Context(), lang, hostile, 8<<20); !errors.Is(err, syntax.ErrTooLarge) {
		t.Errorf("parsed three million brackets: %v", err)
	}
	tree, err := p.Parse(t.Context(), lang, []byte("x"), 100)
	if err != nil || tree.Nodes[0].End != 1 {
		t.Errorf("the next text: %v", err)
	}
}

// Parse returns ErrTooLarge also if it reaches the memory bound in its last step, as it does for the shortest text that
// is too large.
func TestMemoryAtTheEndOfAParse(t *testing.T) {
	t.Parallel()
	p, lang := parser(t), syntax.Lookup("python")
	shortest := sort.Search(1<<20, func(n int) bool {
		_, err := p.Parse(t.Context(), lang, []byte(strings.Repeat("(", n)), 8<<20)
		if err != nil && !errors.Is(err, syntax.ErrTooLarge) {
			t.Errorf("%d brackets: %v", n, err)
		}
		return err != nil
	})
	if shortest == 1<<20 {
		t.Error("a million brackets are not too large")
	}
}

// A dense source of some megabytes is not too large.
func TestMemoryOfADenseSource(t *testing.T) {
	t.Parallel()
	p := parser(t)
	dense := []byte(strings.Repeat("let ab=c.d+e.f;", 4<<20/15))
	if _, err := p.Parse(t.Context(), syntax.Lookup("javascript"), dense, 8<<20); err != nil {
		t.Error(err)
	}
}

// A cancelled parse ends soon, and the next one on the same parser parses its own text.
func TestCancelledParse(t *testing.T) {
	t.Parallel()
	p := parser(t)
	lang := syntax.Lookup("javascript")
	large := []byte(strings.Repeat("f(a, [1, 2, {b: c}]);\n", 400_000))
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := p.Parse(ctx, lang, large, 1<<30)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("parsed %d bytes in 5 ms: %v", len(large), err)
		}
		tree, err := p.Parse(t.Context(), lang, []byte("x"), 100)
		if err != nil || tree.Nodes[0].End != 1 || len(tree.Nodes) != 3 {
			t.Fatalf("the next tree ends at %d and has %d nodes: %v", tree.Nodes[0].End, len(tree.Nodes), err)
		}
	}
}

// For any number of callers there are no more parsers than allowed, and the C heap does not grow with the number of
// files.
func TestParsersAreBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	parsers := syntax.NewParsers(most)
	var mu sync.Mutex
	busy, peak := 0, 0
	var all sync.WaitGroup
	text := []byte("package a\n\nfunc f() { g(1) }\n")
	for i := range 200 {
		all.Go(func() {
			err := parsers.Use(t.Context(), func(p *syntax.Parser) error {
				mu.Lock()
				busy++
				peak = max(peak, busy)
				mu.Unlock()
				defer func() {
					mu.Lock()
					busy--
					mu.Unlock()
				}()
				_, err := p.Parse(t.Context(), syntax.Languages()[i%len(syntax.Languages())], text, 1<<20)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if peak > most {
		t.Errorf("%d at once", peak)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	full := syntax.NewParsers(1)
	defer full.Close()
	err := full.Use(t.Context(), func(*syntax.Parser) error {
		return full.Use(ctx, func(*syntax.Parser) error { return nil })
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("waiting in vain: %v", err)
	}
	parsers.Close()
	if err := parsers.Use(t.Context(), func(*syntax.Parser) error { return nil }); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// Parsing many files leaves no C memory behind, and neither does one large file. The trees of all small files together
// are smaller than what a parser keeps.
func TestNoLeak(t *testing.T) {
	p := parser(t)
	parse := func(lines int) {
		text := []byte(strings.Repeat("f(a, [1, 2, {b: c}]);\n", lines))
		for _, name := range []string{"javascript", "typescript"} {
			if _, err := p.Parse(t.Context(), syntax.Lookup(name), text, 4<<20); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		parse(50)
	}
	before := syntax.Heap()
	const slack = 2 << 20
	for range 100 {
		parse(50)
	}
	if after := syntax.Heap(); after > before+slack {
		t.Errorf("the C heap grew from %d to %d bytes", before, after)
	}
	parse(80_000)
	parse(50) // gives the list of nodes back
	if after := syntax.Heap(); after > before+slack {
		t.Errorf("after a large file the C heap has %d bytes, %d before it", after, before)
	}
}

// A tree of the wanted nodes has each of them whole, the nodes around them, and the others without children. A text
// with a syntax error has its whole tree.
func TestParseWanted(t *testing.T) {
	t.Parallel()
	p := parser(t)
	lang := syntax.Lookup("go")
	wanted := syntax.Wanted{}
	for lang.Kind(wanted.Symbol) != "call_expression" && wanted.Symbol < math.MaxUint16 {
		wanted.Symbol++
	}
	parse := func(text string, at ...string) (shown []string) {
		t.Helper()
		wanted.Places = nil
		for _, place := range at {
			wanted.Places = append(wanted.Places, uint32(strings.Index(text, place)))
		}
		tree, err := p.ParseWanted(t.Context(), lang, []byte(text), 1<<20, &wanted)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tree.Nodes {
			if n := &tree.Nodes[i]; n.Is(syntax.Named) && int(n.Next) == i+1 {
				shown = append(shown, string(tree.Source(i)))
			}
		}
		return shown
	}
	const text = "package a\nfunc f(x int) { g(1, h(2, 3)) }\nfunc k() { l(4) }\nvar m = n(5)"
	for _, c := range []struct {
		at   []string
		want []string
	}{
		{nil, []string{text}},
		{[]string{"g("}, []string{
			"package a", "f", "(x int)", "g", "1", "h", "2", "3", "func k() { l(4) }", "var m = n(5)",
		}},
		{[]string{"h(", "n("}, []string{
			"package a", "f", "(x int)", "g", "1", "h", "2", "3", "func k() { l(4) }", "m", "n", "5",
		}},
		{[]string{"k("}, []string{
			"package a", "func f(x int) { g(1, h(2, 3)) }", "k", "()", "{ l(4) }", "var m = n(5)",
		}},
	} {
		if d := cmp.Diff(c.want, parse(text, c.at...)); d != "" {
			t.Errorf("%q: %s", c.at, d)
		}
	}
	broken := parse(text+"\nfunc (", "n(")
	for _, leaf := range []string{"f", "x", "g", "1", "h", "2", "3", "k", "l", "4", "m", "n", "5"} {
		if !slices.Contains(broken, leaf) {
			t.Errorf("the tree of a broken text has no %q: %q", leaf, broken)
		}
	}
}
