package inspector

import (
	"strings"
	"testing"
)

// compiled is the map of the TypeScript compiler for a file of eleven lines.
const compiled = `{"version":3,"file":"total.js","sourceRoot":"","sources":["../src/total.ts"],"names":[],"mappings":` +
	`";;AAIA,sBAMC;AAND,SAAgB,KAAK,CAAC,KAAa;IAClC,IAAI,GAAG,GAAG,CAAC,CAAA;IACX,KAAK,MAAM,IAAI,IAAI,KAAK,EAAE,CAAC;` +
	`QAC1B,GAAG,IAAI,IAAI,CAAC,KAAK,CAAA;IAClB,CAAC;IACD,OAAO,GAAG,CAAA;AACX,CAAC"}`

// A source map converts both ways: from a position to its source, and from a line to the first position made from it,
// or from the next line with code.
func TestSourceMap(t *testing.T) {
	t.Parallel()
	m, err := parseMap([]byte(compiled))
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[position]position{{6, 8}: {7, 2}, {6, 10}: {7, 2}, {4, 4}: {5, 1}, {8, 11}: {9, 8}} {
		source, to, exact, ok := m.original(from)
		if !ok || !exact || m.sources[source] != "../src/total.ts" || to != want {
			t.Errorf("%v comes from %v (%v, %v)", from, to, exact, ok)
		}
	}
	if _, to, exact, ok := m.original(position{0, 0}); !ok || exact || to.line != 4 {
		t.Errorf("a line of the compiler's own comes from %v (%v, %v)", to, exact, ok)
	}
	if _, _, _, ok := m.original(position{99, 0}); ok {
		t.Error("a line behind the end comes from a source")
	}
	for line, want := range map[int]position{7: {6, 8}, 5: {4, 4}, 0: {2, 0}} {
		if at, ok := m.generated(0, line); !ok || at != want {
			t.Errorf("line %d became %v, %v", line, at, ok)
		}
	}
	if at, ok := m.generated(0, 50); ok {
		t.Errorf("a line behind the end became %v", at)
	}
}

// A map with sections consists of the mappings of its sections.
func TestSourceMapSections(t *testing.T) {
	t.Parallel()
	part := `{"version":3,"sources":["a.ts"],"mappings":"AAAA"}`
	m, err := parseMap([]byte(`{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":` + part +
		`},{"offset":{"line":10,"column":4},"map":` + strings.Replace(part, "a.ts", "b.ts", 1) + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if source, to, exact, ok := m.original(position{10, 4}); !ok || !exact || m.sources[source] != "b.ts" || to.line != 0 {
		t.Errorf("the second part leads to %v of %d", to, source)
	}
	if at, ok := m.generated(1, 0); !ok || at != (position{10, 4}) {
		t.Errorf("b.ts became %v", at)
	}
}

// An inconsistent map is refused completely.
func TestSourceMapLies(t *testing.T) {
	t.Parallel()
	whole := func(mappings string) string {
		return `{"version":3,"sources":["a"],"mappings":"` + mappings + `"}`
	}
	nested := `{"version":3,"sections":[{"map":{"version":3,"sections":[{"map":{}}]}}]}`
	for name, text := range map[string]string{
		"no JSON": "}", "another version": `{"version":2}`, "a digit that is none": whole("A!AA"),
		"a source that is none": whole("ACAA"), "a line before the first": whole("AADA"),
		"two numbers": whole("AA"), "half a number": whole("g"), "a number without end": whole("gggggggggggggA"),
		"a column before the first": whole("D"), "sections of sections": nested,
	} {
		if m, err := parseMap([]byte(text)); err == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
	if numbers, ok := variableLength(strings.Repeat("A", 1<<20)); ok || numbers != nil {
		t.Errorf("an entry of a million numbers is read to its end: %d", len(numbers))
	}
}

func FuzzSourceMap(f *testing.F) {
	f.Add(compiled, 6, 8)
	f.Add(`{"version":3,"sources":[null],"mappings":"AAAA,C;;E"}`, 0, 1)
	f.Fuzz(func(t *testing.T, text string, line, column int) {
		m, err := parseMap([]byte(text))
		if err != nil {
			return
		}
		if source, _, _, ok := m.original(position{line, column}); ok {
			m.generated(source, line)
		}
	})
}
