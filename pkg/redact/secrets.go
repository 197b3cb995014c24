package redact

import (
	_ "embed"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"sync"
)

// Credential is the rule for a credential configured by the operator, as opposed to a recognisable form of secret.
const Credential = "credential"

// MarkerStart begins every marker.
const MarkerStart = "[redacted:"

// marker is the form of the text that replaces a secret.
var marker = regexp.MustCompile(`\[redacted:[a-z0-9-]{1,64}\]`)

// Marker returns the text that replaces a secret found by a rule: [redacted:RULE].
func Marker(rule string) string { return MarkerStart + rule + "]" }

// Markers returns the markers in text, in order.
func Markers(text string) []string { return marker.FindAllString(text, -1) }

// Secrets replaces secrets of a recognisable form by markers. The forms are those of a maintained list (NOTICE). Text
// that is a secret only by its context is unchanged, so that code stays intact.
func Secrets(text string) string {
	f := forms()
	for _, r := range f.near(text) {
		text = r.replace(text)
	}
	return text
}

// Values returns a function that replaces the given texts by the marker for configured credentials. Texts shorter than
// 8 bytes would match too much and are ignored.
func Values(values []string) func(string) string {
	const shortest = 8
	var pairs []string
	for _, v := range values {
		if len(v) >= shortest {
			pairs = append(pairs, v, Marker(Credential))
		}
	}
	if len(pairs) == 0 {
		return func(text string) string { return text }
	}
	return strings.NewReplacer(pairs...).Replace
}

//go:embed rules.json
var rulesJSON []byte

// form is a rule for a form of secret. The secret is the first matching group of its pattern, or the whole match.
type form struct {
	ID       string   `json:"id"`
	Pattern  string   `json:"pattern"`
	Keywords []string `json:"keywords"` // each match contains one of them, in lower case
	Entropy  float64  `json:"entropy"`  // in bits per byte; a secret has more
	Allowed  []string `json:"allowed"`  // expressions for texts that are not secrets

	once    sync.Once
	pattern *regexp.Regexp
	allowed []*regexp.Regexp
}

func (f *form) compile() {
	f.once.Do(func() {
		f.pattern = regexp.MustCompile(f.Pattern)
		for _, a := range f.Allowed {
			f.allowed = append(f.allowed, regexp.MustCompile(a))
		}
	})
}

func (f *form) replace(text string) string {
	f.compile()
	var out strings.Builder
	end := 0
	for _, m := range f.pattern.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[0], m[1]
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 && m[i+1] > m[i] {
				from, to = m[i], m[i+1]
				break
			}
		}
		if !f.is(text[from:to]) {
			continue
		}
		out.WriteString(text[end:from])
		out.WriteString(Marker(f.ID))
		end = to
	}
	if end == 0 {
		return text
	}
	out.WriteString(text[end:])
	return out.String()
}

// is reports whether text of this form is a secret, and not an example.
func (f *form) is(text string) bool {
	if entropy(text) <= f.Entropy {
		return false
	}
	for _, a := range f.allowed {
		if a.MatchString(text) {
			return false
		}
	}
	return true
}

// entropy returns Shannon's entropy of text in bits per byte.
func entropy(text string) float64 {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	bits := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// index finds the keywords of all forms in one pass over a text. Only the expressions of forms with a hit run, because
// expressions are slow and most texts hold no keyword.
type index struct {
	forms []*form
	begin [1 << 16 / 64]uint64 // first two bytes of the keywords
	words map[uint16][]keyword
}

type keyword struct {
	text string
	form int
}

var forms = sync.OnceValue(func() *index {
	x := &index{words: map[uint16][]keyword{}}
	if err := json.Unmarshal(rulesJSON, &x.forms); err != nil {
		panic(err) // a test compiles them
	}
	for i, f := range x.forms {
		for _, k := range f.Keywords {
			pair := uint16(k[0])<<8 | uint16(k[1])
			x.begin[pair/64] |= 1 << (pair % 64)
			x.words[pair] = append(x.words[pair], keyword{k, i})
		}
	}
	return x
})

// near returns the forms that may be in text, in the order of the list.
func (x *index) near(text string) []*form {
	if len(text) < 2 {
		return nil
	}
	var found map[int]bool
	pair := uint16(lower(text[0]))
	for i := 1; i < len(text); i++ {
		pair = pair<<8 | uint16(lower(text[i]))
		if x.begin[pair/64]&(1<<(pair%64)) == 0 {
			continue
		}
		for _, k := range x.words[pair] {
			if !found[k.form] && hasPrefixFold(text[i-1:], k.text) {
				if found == nil {
					found = map[int]bool{}
				}
				found[k.form] = true
			}
		}
	}
	var near []*form
	for i := range x.forms {
		if found[i] {
			near = append(near, x.forms[i])
		}
	}
	return near
}

// hasPrefixFold reports whether text begins with a prefix of lower-case letters, in any case of ASCII.
func hasPrefixFold(text, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(text[i]) != prefix[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
