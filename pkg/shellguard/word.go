package shellguard

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// word is a word of a command, as far as it is known before the command runs.
type word struct {
	// text is the word's value if known; else the text after its last unknown part.
	text  string
	known bool
	// split marks an unknown word that may split into several words, or none.
	split bool
	// process marks a word that names a process substitution for reading: <(...).
	process bool
	// lead is the text before the first unknown part of an unknown word.
	lead string
	// path is the value of an unknown word as a path, with ~ for the variable HOME and . for PWD;
	// "" if other parts are unknown.
	path string
	// holes are the indexes of the arguments of [Read] in the word, for an unknown word.
	holes []int
}

// start is the known beginning of the word.
func (w word) start() string {
	if w.known {
		return w.text
	}
	return w.lead
}

// after is the word without its first n bytes, which are known.
func (w word) after(n int) word {
	if w.known {
		w.text = w.text[n:]
	} else {
		w.lead = w.lead[n:]
	}
	return w
}

// literals returns words with the given texts as their values.
func literals(texts []string) []word {
	words := make([]word, len(texts))
	for i, t := range texts {
		words[i] = word{text: t, known: true}
	}
	return words
}

// name returns the name of the command in a word, in lower case and without its folder, and false if it is unknown.
func (w word) name() (string, bool) {
	text := w.text
	if !w.known && (w.split || !strings.Contains(text, "/")) {
		return "", false
	}
	name := strings.ToLower(path.Base(text))
	if strings.HasSuffix(text, "/") || name == "." && text != "." {
		return "", w.known
	}
	return strings.TrimPrefix(name, "="), true // zsh replaces =rm by the path of rm
}

// maxBraces is the maximum number of words that the braces of one word may expand to.
const maxBraces = 64

// words returns the possible values of a word of the text, several only if braces are expanded.
func words(w *syntax.Word) []word {
	if !strings.Contains(w.Lit(), "{") && !literalBrace(w) {
		return []word{read(w)}
	}
	split := *w
	split.Parts = append([]syntax.WordPart{}, w.Parts...)
	if !syntax.SplitBraces(&split) {
		return []word{read(w)}
	}
	if n := variants(&split); n > maxBraces {
		return []word{{split: true}}
	}
	var list []word
	for _, variant := range expand.Braces(&split) {
		list = append(list, read(variant))
	}
	return list
}

func literalBrace(w *syntax.Word) bool {
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok && strings.Contains(lit.Value, "{") {
			return true
		}
	}
	return false
}

// variants returns the number of words that the braces of a word expand to, more than maxBraces if they are too many to
// count.
func variants(w *syntax.Word) int {
	n := 1
	for _, part := range w.Parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			continue
		}
		if brace.Sequence {
			return maxBraces + 1
		}
		sum := 0
		for _, e := range brace.Elems {
			sum += variants(e)
		}
		if n *= sum; n > maxBraces {
			return n
		}
	}
	return n
}

// read returns the value of a word without braces.
func read(w *syntax.Word) word {
	r := reader{word: word{known: true}}
	for _, part := range w.Parts {
		r.part(part, false)
	}
	r.word.text = r.b.String()
	if !r.word.known && !r.lost {
		r.word.path = r.path.String()
	}
	return r.word
}

type reader struct {
	word word
	b    strings.Builder
	// path is the word as a path, as far as it is known.
	path strings.Builder
	lost bool
}

func (r *reader) write(text string) {
	r.b.WriteString(text)
	r.path.WriteString(text)
}

func (r *reader) part(part syntax.WordPart, quoted bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		r.literal(p.Value, quoted)
	case *syntax.SglQuoted:
		text := p.Value
		if p.Dollar {
			// without its own config it would share one with all other calls
			text, _, _ = expand.Format(new(expand.Config), text, nil)
		}
		r.write(text)
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			r.part(inner, true)
		}
	case *syntax.ProcSubst:
		r.word.process = true
		r.unknown(false)
	case *syntax.ParamExp:
		if folder := folderOf(p); folder != "" && r.path.Len() == 0 && !r.lost {
			r.path.WriteString(folder)
		} else {
			r.lost = true
		}
		r.away(!quoted)
	default:
		r.unknown(!quoted)
	}
}

// literal adds text of the source with its escapes resolved. An unquoted pattern may match any name.
func (r *reader) literal(text string, quoted bool) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0):
			i++
			if text[i] != '\n' {
				r.write(text[i : i+1])
			}
		case !quoted && (c == '*' || c == '?' || c == '['):
			if c == '[' && !strings.Contains(text[i:], "]") {
				r.write(text[i : i+1])
				continue
			}
			r.unknown(true)
		default:
			r.write(text[i : i+1])
		}
	}
}

// folderOf returns the folder that a variable certainly holds, "" for other variables.
func folderOf(p *syntax.ParamExp) string {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil {
		return ""
	}
	if p.Exp != nil && p.Exp.Op != syntax.DefaultUnset && p.Exp.Op != syntax.DefaultUnsetOrNull &&
		p.Exp.Op != syntax.ErrorUnset &&
		p.Exp.Op != syntax.ErrorUnsetOrNull {
		return ""
	}
	switch p.Param.Value {
	case "HOME":
		return "~"
	case "PWD":
		return "."
	}
	return ""
}

func (r *reader) unknown(split bool) {
	r.lost = true
	r.away(split)
}

// away marks the word as unknown from here on.
func (r *reader) away(split bool) {
	if r.word.known {
		r.word.lead = r.b.String()
	}
	r.word.known = false
	r.word.split = r.word.split || split
	r.b.Reset()
}

// join returns the words as one text, and whether all of them are known.
func join(list []word) (string, bool) {
	texts := make([]string, len(list))
	for i, w := range list {
		if !w.known {
			return "", false
		}
		texts[i] = w.text
	}
	return strings.Join(texts, " "), true
}

// Quote formats an argument list in shell syntax.
func Quote(argv []string) string {
	texts := make([]string, len(argv))
	for i, a := range argv {
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			q = strings.ToValidUTF8(a, "\uFFFD")
		}
		texts[i] = q
	}
	return strings.Join(texts, " ")
}
