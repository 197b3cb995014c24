package dsl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/spelling"
)

// shapeKind is the kind of values that a shape describes.
type shapeKind uint8

const (
	objectShape shapeKind = iota
	mapShape
	listShape
	stringShape
	integerShape
	numberShape
	booleanShape
	anyShape
	oneOfShape
)

// shape describes the valid values at a path. The same shapes validate a file and are printed as JSON Schema. They are
// built once, in grammar.go, and immutable.
type shape struct {
	kind shapeKind
	// def is the name under $defs, for shapes that are used several times or contain themselves.
	def string
	// doc is shown by editors.
	doc string

	// fields are the keys of an object; other keys are errors.
	fields []field
	// forbidden are keys of an object with their own error message, by key.
	forbidden map[string]forbidden

	// keys and values describe a map with free keys; most is the maximum number of entries.
	keys   *pattern
	values *shape
	// items describes the elements of a list; most is the maximum number of elements.
	items *shape
	most  int

	// pattern, enum and the lengths in characters restrict a string.
	pattern *pattern
	// verify returns the error in a string, as a sentence without its end, instead of the pattern's message; it may refuse
	// more than the pattern can express.
	verify func(string) error
	enum   []string
	minLen int
	maxLen int
	// sense returns in one sentence the error in a value of the right form, "" for a valid value. JSON Schema cannot
	// express it.
	sense func(*node) string

	// min and max limit a number, both inclusive; above is exclusive and applies if aboveSet.
	min, max float64
	above    float64
	aboveSet bool

	// options are the shapes of a oneOf. The first with the value's kind is used; objects are distinguished by the key
	// that every object of the first option has.
	options []*shape
	key     string
}

// field is a key of an object.
type field struct {
	name     string
	shape    *shape
	required bool
	// strict means that an empty value is an error; for other optional keys an empty value counts as absent.
	strict bool
	// dormant is the missing effect of a key that kaged does not implement, "" for a key with an effect. It comes from the
	// list notInForce.
	dormant string
}

// forbidden is a key that formerly existed here, or that users put in the wrong place.
type forbidden struct {
	kind    Kind
	message string
}

// pattern is a regular expression with the same meaning in RE2 and ECMAScript, and that meaning in words.
type pattern struct {
	re   *regexp.Regexp
	says string
}

func newPattern(expr, says string) *pattern { return &pattern{regexp.MustCompile(expr), says} }

// checker compares a value with a shape and reports every mismatch.
type checker struct{ diags *diagnostics }

func (c *checker) violation(pos Position, path, format string, args ...any) {
	c.diags.errorf(SchemaViolation, pos, path, format, args...)
}

// check reports errors of n by the shape s. at is the position for missing parts of n.
func (c *checker) check(n *node, s *shape, path string, at Position) {
	before := c.diags.errors
	c.fits(n, s, path, at)
	if s.sense == nil || c.diags.errors > before {
		return
	}
	if says := s.sense(n); says != "" {
		c.diags.errorf(InvalidValue, n.pos, path, "%s", says)
	}
}

func (c *checker) fits(n *node, s *shape, path string, at Position) {
	switch s.kind {
	case anyShape:
	case oneOfShape:
		c.oneOf(n, s, path, at)
	case objectShape:
		c.object(n, s, path, at)
	case mapShape:
		c.freeMap(n, s, path)
	case listShape:
		c.list(n, s, path)
	case stringShape:
		c.text(n, s, path)
	case integerShape, numberShape:
		c.number(n, s, path)
	case booleanShape:
		if n.kind != boolNode {
			c.violation(n.pos, path, "%s is true or false, not %s.", last(path), n.describe())
		}
	}
}

func (c *checker) object(n *node, s *shape, path string, at Position) {
	if n.kind != mapNode {
		c.violation(n.pos, path, "%s is a mapping, not %s.", last(path), n.describe())
		return
	}
	for _, e := range n.entries {
		sub := join(path, e.key)
		f := s.field(e.key)
		if f == nil {
			c.unknownKey(e, s, sub)
			continue
		}
		if e.value.kind == nullNode && !f.required && !f.strict {
			continue
		}
		if e.value.kind == nullNode && f.required {
			c.violation(e.keyPos, sub, "%s is required and has no value.", e.key)
			continue
		}
		if f.dormant != "" {
			c.dormant(e, f, sub)
		}
		c.check(e.value, f.shape, sub, e.keyPos)
	}
	for _, f := range s.fields {
		if f.required && n.entry(f.name) == nil {
			c.violation(at, join(path, f.name), "%s is required.", f.name)
		}
	}
}

// dormant warns of a key without effect.
func (c *checker) dormant(e entry, f *field, path string) {
	c.diags.warnf(NotInForce, e.keyPos, path, "%s", NotInForceReason(f.name, f.dormant))
}

func (c *checker) unknownKey(e entry, s *shape, path string) {
	if f, ok := s.forbidden[e.key]; ok {
		c.diags.errorf(f.kind, e.keyPos, path, "%s", f.message)
		return
	}
	if near := nearest(e.key, s.fields); near != "" {
		c.violation(e.keyPos, path, "Unknown key %q; did you mean %q?", shown(e.key), near)
		return
	}
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	c.violation(e.keyPos, path, "Unknown key %q; the keys here are %s.", shown(e.key), enumerate(names, "and"))
}

func (c *checker) freeMap(n *node, s *shape, path string) {
	if n.kind != mapNode {
		c.violation(n.pos, path, "%s is a mapping, not %s.", last(path), n.describe())
		return
	}
	if s.most > 0 && len(n.entries) > s.most {
		c.violation(n.pos, path, "%s has %d entries; at most %d are allowed.", last(path), len(n.entries), s.most)
		return
	}
	for _, e := range n.entries {
		sub := join(path, e.key)
		if s.keys != nil && !s.keys.re.MatchString(e.key) {
			c.violation(e.keyPos, sub, "The key %q is not %s.", shown(e.key), s.keys.says)
			continue
		}
		if e.value.kind == nullNode && s.values.kind != anyShape {
			c.violation(e.keyPos, sub, "%s has no value.", last(sub))
			continue
		}
		c.check(e.value, s.values, sub, e.keyPos)
	}
}

func (c *checker) list(n *node, s *shape, path string) {
	if n.kind != listNode {
		c.violation(n.pos, path, "%s is a list, not %s.", last(path), n.describe())
		return
	}
	if s.most > 0 && len(n.items) > s.most {
		c.violation(n.pos, path, "%s has %d entries; at most %d are allowed.", last(path), len(n.items), s.most)
		return
	}
	for i, item := range n.items {
		c.check(item, s.items, path+"["+strconv.Itoa(i)+"]", item.pos)
	}
}

func (c *checker) text(n *node, s *shape, path string) {
	_, isNumber := n.number()
	isDuration := s.pattern == durationPattern
	if n.kind != stringNode && (!isDuration || !isNumber) {
		what := "text"
		if len(s.enum) > 0 {
			what = enumerate(s.enum, "or")
		}
		c.violation(n.pos, path, "%s is %s, not %s%s.", last(path), what, n.describe(), quoteHint(n))
		return
	}
	length := utf8.RuneCountInString(n.text)
	switch {
	case len(s.enum) > 0 && !slices.Contains(s.enum, n.text):
		c.violation(n.pos, path, "%s is %s, not %s.", last(path), enumerate(s.enum, "or"), n.describe())
	case length < s.minLen:
		c.violation(n.pos, path, "%s must not be empty.", last(path))
	case s.maxLen > 0 && length > s.maxLen:
		c.violation(n.pos, path, "%s has %d characters; at most %d are allowed.", last(path), length, s.maxLen)
	case isDuration && unitless.MatchString(n.text):
		c.violation(n.pos, path, "%s is %s and has no unit; write %ss or %sm.", last(path), n.describe(), n.text, n.text)
	case s.verify != nil && s.verify(n.text) != nil:
		says := s.verify(n.text).Error()
		c.violation(n.pos, path, "%s.", strings.ToUpper(says[:1])+says[1:])
	case s.pattern != nil && !s.pattern.re.MatchString(n.text):
		c.violation(n.pos, path, "%s is %s and must be %s.", last(path), n.describe(), s.pattern.says)
	}
}

func quoteHint(n *node) string {
	if n.kind == boolNode || n.kind == intNode || n.kind == floatNode {
		return "; put it in quotes if it is meant as text"
	}
	return ""
}

func (c *checker) number(n *node, s *shape, path string) {
	what := "a number"
	if s.kind == integerShape {
		what = "a whole number"
	}
	v, ok := n.number()
	if !ok || (s.kind == integerShape && v != float64(int64(v))) {
		c.violation(n.pos, path, "%s is %s, not %s.", last(path), what, n.describe())
		return
	}
	low, limit := v < s.min, plain(s.min)
	if s.aboveSet {
		low, limit = v <= s.above, "more than "+plain(s.above)
	}
	switch {
	case !low && v <= s.max:
	case s.min == s.max && !s.aboveSet:
		c.violation(n.pos, path, "%s is %s and must be %s.", last(path), n.text, limit)
	case s.aboveSet:
		c.violation(n.pos, path, "%s is %s and must be %s and at most %s.", last(path), n.text, limit, plain(s.max))
	default:
		c.violation(n.pos, path, "%s is %s and must be from %s to %s.", last(path), n.text, limit, plain(s.max))
	}
}

func (n *node) number() (float64, bool) {
	switch n.kind {
	case intNode:
		return float64(n.int), true
	case floatNode:
		return n.float, true
	}
	return 0, false
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// oneOf selects the option with the value's kind, so that messages are about the intended option.
func (c *checker) oneOf(n *node, s *shape, path string, at Position) {
	for _, o := range s.options {
		if s.key != "" && o.kind == objectShape && o == s.options[0] && n.entry(s.key) == nil {
			continue
		}
		if o.takes(n.kind) && (len(o.enum) == 0 || slices.Contains(o.enum, n.text)) {
			c.check(n, o, path, at)
			return
		}
	}
	names := make([]string, len(s.options))
	for i, o := range s.options {
		names[i] = o.name()
	}
	c.violation(n.pos, path, "%s is %s, not %s.", last(path), enumerate(names, "or"), n.describe())
}

func (s *shape) takes(k nodeKind) bool {
	switch s.kind {
	case objectShape, mapShape:
		return k == mapNode
	case listShape:
		return k == listNode
	case stringShape:
		return k == stringNode
	case integerShape, numberShape:
		return k == intNode || k == floatNode
	case booleanShape:
		return k == boolNode
	}
	return true
}

func (s *shape) name() string {
	switch s.kind {
	case objectShape, mapShape:
		return "a mapping"
	case listShape:
		return "a list"
	case stringShape:
		if len(s.enum) > 0 {
			return enumerate(s.enum, "or")
		}
		return "text"
	case integerShape:
		return "a whole number"
	case numberShape:
		return "a number"
	case booleanShape:
		return "true or false"
	}
	return "any value"
}

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join adds a key to a tree path; keys that hold more than letters, digits, - and _ are put in brackets and quotes.
func join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(shown(key)) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// last returns the last key of a tree path, for messages.
func last(path string) string {
	if path == "" {
		return "The file"
	}
	if i := strings.LastIndexByte(path, '.'); i >= 0 && !strings.HasSuffix(path, "]") {
		return path[i+1:]
	}
	if i := strings.LastIndexByte(path, '['); i >= 0 {
		if j := strings.LastIndexByte(path[:i], '.'); j >= 0 {
			return path[j+1:]
		}
	}
	return path
}

func enumerate(names []string, word string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%s %s %s", strings.Join(names[:len(names)-1], ", "), word, names[len(names)-1])
}

// nearest returns the field that key is a likely misspelling of, "" without a close one.
func nearest(key string, fields []field) string {
	best, name := 3, ""
	if len(key) > 40 {
		return ""
	}
	for _, f := range fields {
		if d := spelling.Distance(strings.ToLower(key), f.name); d < best && d < len(f.name)/2+1 {
			best, name = d, f.name
		}
	}
	return name
}
