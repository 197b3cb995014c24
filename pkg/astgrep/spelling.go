package astgrep

import (
	"iter"
	"strings"

	"kaged.dev/pkg/syntax"
)

// A spelling is the form of a pattern's meta variables in the language's grammar. Usually they are names, with the
// language's sigil for each dollar. Some places do not allow a name: an import's source is a string, a Ruby class
// begins with a capital, and JSON has no names. Therefore other spellings are tried if a pattern does not parse: first
// for one variable at a time, then for all.

// spellings returns a pattern in all its spellings, the usual one first, and where the pattern ends in each.
func spellings(lang *syntax.Language, pattern string) iter.Seq2[string, int] {
	pieces := split(lang, pattern)
	variables := 0
	for _, p := range pieces {
		if p.variable {
			variables++
		}
	}
	usual := spell(lang, pieces, func(int) string { return "" })
	return func(yield func(string, int) bool) {
		if !yield(usual, len(usual)) || semicolons[lang.Name] && !yield(usual+";", len(usual)) || variables > mostRespelled {
			return
		}
		marks := []string{quoted}
		if lang.Name == "ruby" {
			marks = append(marks, capital)
		}
		if members[lang.Name] != "" {
			marks = append(marks, member)
		}
		for _, mark := range marks {
			for one := range variables {
				text := spell(lang, pieces, func(i int) string { return map[bool]string{true: mark}[i == one] })
				if !yield(text, len(text)) {
					return
				}
			}
			if text := spell(lang, pieces, func(int) string { return mark }); variables > 1 && !yield(text, len(text)) {
				return
			}
		}
	}
}

// semicolons are the languages in which an expression statement ends with a semicolon.
var semicolons = map[string]bool{"c": true, "cpp": true, "csharp": true, "java": true, "php": true, "rust": true}

// mostRespelled is the maximum number of variables in a pattern for which other spellings are tried.
const mostRespelled = 16

// The marks stand for a dollar in other spellings. They are letters that are rare in source code.
const (
	quoted  = "\u02AC" // within quotes
	capital = "K\u02AC"
	member  = "\u02AE" // before a text that makes the name a member of a block
)

// members are the texts that turn a name into a member of a block, in languages where a name alone is not one.
var members = map[string]string{"css": ": 0;", "hcl": " = 0", "json": ":0"}

// piece is a part of a pattern: a meta variable or the text between two of them.
type piece struct {
	text     string
	variable bool
	// member is true if the variable stands for a whole member of a JSON object, key and value.
	member bool
}

// split cuts a pattern into pieces.
func split(lang *syntax.Language, pattern string) []piece {
	var pieces []piece
	json := jsonPlace{}
	from := 0
	for i := 0; i < len(pattern); {
		if lang.Name == "json" && pattern[i] == '"' {
			i = stringEnd(pattern, i)
			continue
		}
		if pattern[i] != '$' {
			json.pass(pattern[i])
			i++
			continue
		}
		end := i
		for end < len(pattern) && (pattern[end] == '$' || nameByte(pattern[end])) {
			end++
		}
		if _, ok := parseVariable(pattern[i:end], '$'); ok && !inWord(pattern[end:]) {
			member := json.object() && !json.value && !strings.HasPrefix(strings.TrimLeft(pattern[end:], " \t\r\n"), ":")
			pieces = append(pieces, piece{text: pattern[from:i]}, piece{pattern[i:end], true, member})
			from = end
		}
		i = end
	}
	return append(pieces, piece{text: pattern[from:]})
}

// spell joins the pieces. mark returns the spelling of the i-th variable's dollars, "" for the
// usual one.
func spell(lang *syntax.Language, pieces []piece, mark func(i int) string) string {
	var b strings.Builder
	variable := 0
	for _, p := range pieces {
		switch {
		case !p.variable:
			b.WriteString(p.text)
			continue
		case lang.Name == "json":
			b.WriteString(`"` + strings.ReplaceAll(p.text, "$", quoted) + `"`)
			if p.member {
				b.WriteString(members[lang.Name])
			}
		default:
			switch m := mark(variable); m {
			case "":
				b.WriteString(strings.ReplaceAll(p.text, "$", string(lang.Sigil)))
			case member:
				b.WriteString(strings.ReplaceAll(p.text, "$", member) + members[lang.Name])
			case quoted:
				b.WriteString(`"` + strings.ReplaceAll(p.text, "$", quoted) + `"`)
			default:
				b.WriteString(strings.ReplaceAll(p.text, "$", m))
			}
		}
		variable++
	}
	return b.String()
}

// respell returns the text of a node of a pattern with its marks replaced by the sigil.
func respell(lang *syntax.Language, text string) string {
	sigil := string(lang.Sigil)
	bare := strings.TrimSuffix(text, members[lang.Name])
	switch {
	case strings.HasPrefix(text, capital):
		return strings.ReplaceAll(text, capital, sigil)
	case strings.HasPrefix(text, member):
		return strings.ReplaceAll(bare, member, sigil)
	}
	inside, ok := strings.CutPrefix(bare, `"`+quoted)
	if !ok || !strings.HasSuffix(inside, `"`) {
		return text
	}
	return sigil + strings.ReplaceAll(strings.TrimSuffix(inside, `"`), quoted, sigil)
}

// asWritten returns the text of a node in the caller's spelling. A variable that is only a part of a text, as in "costs
// $A", is text.
func asWritten(lang *syntax.Language, pattern, text string) string {
	if lang.Sigil == '$' || !strings.ContainsRune(text, lang.Sigil) {
		return text
	}
	for _, p := range split(lang, pattern) {
		if p.variable {
			text = strings.ReplaceAll(text, strings.ReplaceAll(p.text, "$", string(lang.Sigil)), p.text)
		}
	}
	return text
}

// jsonPlace is a position in a JSON text: the open brackets, and whether a value follows.
type jsonPlace struct {
	open  []byte // the brackets around the place
	value bool   // a colon precedes the place
}

func (j *jsonPlace) object() bool { return len(j.open) > 0 && j.open[len(j.open)-1] == '{' }

func (j *jsonPlace) pass(c byte) {
	switch c {
	case '{', '[':
		j.open, j.value = append(j.open, c), false
	case '}', ']':
		j.open, j.value = j.open[:max(len(j.open)-1, 0)], false
	case ':':
		j.value = true
	case ',':
		j.value = false
	}
}

// stringEnd returns the end of the string that begins at i.
func stringEnd(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(s)
}
