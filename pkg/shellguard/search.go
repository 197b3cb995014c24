package shellguard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"kaged.dev/pkg/clip"
)

// Limits of a search. Text beyond them is not fine.
const (
	// maxDepth is the maximum nesting of texts, as in sh -c 'sh -c ...'.
	maxDepth = 16
	// maxNesting is the maximum nesting of brackets and compound commands, since the parser and the walk need memory for
	// each.
	maxNesting = 500
	// maxWork is the maximum number of examined words and bytes of texts, several times the content of one text. Only text
	// built to start the same words repeatedly in different ways exceeds it, and is refused.
	maxWork = 1 << 19
	// maxText is the maximum size of a text that is an argument of a program. Linux takes no longer argument.
	maxText = 128 << 10
	// maxShown is the maximum length of a command in a finding, in characters.
	maxShown = 160
)

// input is the kind of a command's standard input, as far as it matters to a shell.
type input struct {
	kind inputKind
	text string
}

type inputKind int

const (
	terminal inputKind = iota // no content is known
	file                      // a file, treated like a script
	known                     // known text
	computed                  // content that is unknown before the command runs
)

var nothing = input{}

// search is the state of one judgement.
type search struct {
	guard    *Guard
	findings []Finding
	work     int
	// judged are the commands already examined.
	judged map[judgement]bool
	// texts are the texts already examined, each with its folder and its depth.
	texts map[nested]bool
	// holes are the indexes of the arguments of [Read] that a shell would read as commands.
	holes []int
	// dirs are the possible folders of a command.
	dirs []string
	// source is the examined command, as written in the text.
	source string
	// typed marks text that may not be meant for a shell. Its unclear parts give no findings.
	typed bool
}

// judgement identifies an examined command; the same command judged again is part of the same list of words.
type judgement struct {
	first *word
	words int
	in    inputKind
	depth int
}

// nested identifies an examined text.
type nested struct {
	text, dirs string
	depth      int
}

func (g *Guard) search() *search {
	s := &search{guard: g, judged: map[judgement]bool{}, texts: map[nested]bool{}, dirs: []string{"?"}}
	if g.dir != "" {
		s.dirs = []string{g.dir}
	}
	return s
}

func (s *search) add(class Class, reason string) {
	count := 0
	for _, have := range s.findings {
		if have.Class == class {
			count++
		}
	}
	if count >= MaxFindings {
		return
	}
	if f := (Finding{class, shorten(s.source), reason}); !slices.Contains(s.findings, f) {
		s.findings = append(s.findings, f)
	}
}

// unclear adds a finding for commands that are unknown before they run.
func (s *search) unclear(reason string) {
	if !s.typed {
		s.add(Destructive, reason)
	}
}

// hidden adds a finding for text beyond the limits. Useful commands stay within them, and the unexamined part could
// hide a blocked command.
func (s *search) hidden(reason string) {
	if !s.typed {
		s.add(Blocked, reason)
	}
}

func (s *search) intricate() { s.hidden("it is too long or too intricate to be judged") }

// unread records unknown words that a shell would read as commands.
func (s *search) unread(list ...word) {
	for _, w := range list {
		s.holes = append(s.holes, w.holes...)
	}
}

// verdict returns the findings about text.
func (s *search) verdict(text string) Verdict {
	v := Verdict{Findings: s.findings, whole: shorten(text)}
	for _, f := range s.findings {
		v.Class = max(v.Class, f.Class)
	}
	return v
}

func shorten(text string) string {
	if len(text) > 8*maxShown {
		text = text[:8*maxShown]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	return clip.MarkedRunes(text, maxShown, "…")
}

// text judges shell text as bash and as POSIX sh, because shells differ.
func (s *search) text(text string, depth int) {
	this := nested{text, strings.Join(s.dirs, "\x00"), depth}
	if s.texts[this] {
		return
	}
	s.texts[this] = true
	outer, dirs := s.source, s.dirs
	defer func() {
		s.source, s.dirs = outer, dirs
		if recover() != nil {
			s.source = text
			s.unclear("it cannot be read as shell commands")
		}
	}()
	s.work += len(text)
	switch {
	case s.work > maxWork || !s.typed && len(text) > maxText:
		s.intricate()
		return
	case depth > maxDepth:
		s.source = text
		s.hidden("texts for shells are nested too deep to be judged")
		return
	case nesting(text) > maxNesting:
		s.source = text
		s.hidden("its commands are nested too deep to be judged")
		return
	}
	understood := false
	for _, lang := range [...]syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		whole, in := true, dirs
		for stmt, err := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(strings.NewReader(text)) {
			if err != nil {
				whole = false // a shell runs the commands before a syntax error
				break
			}
			in = s.statement(text, stmt, in, depth)
		}
		understood = understood || whole
	}
	if !understood {
		s.source = text
		s.unclear("it cannot be read as shell commands")
	}
}

// nesting estimates the nesting of commands in text, rather too high than too low.
func nesting(text string) int {
	depth, deepest := 0, 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '{', '`', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
	}
	words := 0
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}", r) }) {
		switch w {
		case "if", "while", "until", "for", "case", "select", "!", "time", "coproc", "function":
			words++
		case "fi", "done", "esac":
			words--
		}
		deepest = max(deepest, words/4) // in prose most of these words are not commands
	}
	return deepest
}

// statement judges one statement of a text that runs in one of several folders, and returns the possible folders of the
// next one.
func (s *search) statement(text string, stmt *syntax.Stmt, in []string, depth int) []string {
	f := folders{home: s.guard.home, at: map[*syntax.Stmt][]string{}, been: in}
	ok, failed := f.follow(stmt, in)
	v := visitor{
		search:  s,
		text:    text,
		depth:   depth,
		folders: f.at,
		piped:   map[*syntax.Stmt]input{},
		inputs:  []input{nothing},
	}
	syntax.Walk(stmt, v.visit)
	return union(ok, failed)
}

// visitor walks a statement and tracks the standard input of each part.
type visitor struct {
	*search
	text  string
	depth int
	// folders are the possible folders of statements.
	folders map[*syntax.Stmt][]string
	// piped are statements that read from a pipe.
	piped map[*syntax.Stmt]input
	// inputs are the inputs of the enclosing nodes, the visited node's last.
	inputs []input
}

func (v *visitor) visit(node syntax.Node) bool {
	if node == nil {
		v.inputs = v.inputs[:len(v.inputs)-1]
		return true
	}
	in := v.inputs[len(v.inputs)-1]
	switch n := node.(type) {
	case *syntax.Stmt:
		if at, ok := v.folders[n]; ok {
			v.dirs = at
		}
		if from, ok := v.piped[n]; ok {
			in = from
		}
		in = v.redirected(n, in)
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			v.piped[n.Y] = printed(n.X)
		}
	case *syntax.CallExpr:
		v.call(n, in)
	}
	v.inputs = append(v.inputs, in)
	return true
}

// span returns the source of a node.
func (v *visitor) span(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(v.text) {
		return v.text
	}
	return v.text[from:to]
}

// call judges a simple command.
func (v *visitor) call(n *syntax.CallExpr, in input) {
	if len(n.Args) == 0 {
		return
	}
	v.source = v.span(n)
	var list []word
	for _, w := range n.Args {
		list = append(list, words(w)...)
	}
	v.command(list, in, v.depth)
}

// redirected returns the input of a statement, and judges the files that it writes.
func (v *visitor) redirected(stmt *syntax.Stmt, in input) input {
	for _, r := range stmt.Redirs {
		var target word
		if r.Word != nil {
			target = read(r.Word)
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if r.Hdoc == nil {
				continue
			}
			in = input{computed, ""}
			if body := read(&syntax.Word{Parts: []syntax.WordPart{&syntax.DblQuoted{Parts: r.Hdoc.Parts}}}); literalDocument(r) {
				in = input{known, source(r.Hdoc)}
			} else if body.known {
				in = input{known, body.text}
			}
		case syntax.WordHdoc:
			in = input{computed, ""}
			if target.known {
				in = input{known, target.text}
			}
		case syntax.RdrIn, syntax.RdrInOut:
			in = input{file, ""}
			if target.process || strings.HasPrefix(target.text, "/dev/") {
				in = input{computed, ""}
			}
		case syntax.DplIn:
			in = input{computed, ""}
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.RdrIn, syntax.DplIn:
		default:
			if r.Op == syntax.DplOut && descriptor(target) {
				continue
			}
			if name := v.system(target); name != "" {
				v.source = v.span(stmt)
				v.add(Destructive, "it writes to the system path "+name)
			}
		}
	}
	return in
}

// descriptor reports whether a word after >& is a file descriptor, or closes one.
func descriptor(w word) bool {
	return w.known && strings.Trim(w.text, "0123456789") == "" || w.known && w.text == "-"
}

// literalDocument reports whether a here-document is not expanded, because its delimiter is quoted.
func literalDocument(r *syntax.Redirect) bool {
	return slices.ContainsFunc(r.Word.Parts, func(part syntax.WordPart) bool {
		lit, ok := part.(*syntax.Lit)
		return !ok || strings.Contains(lit.Value, `\`)
	})
}

// source returns the text of a here-document without expansion.
func source(doc *syntax.Word) string {
	var b strings.Builder
	for _, part := range doc.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			b.WriteString(lit.Value)
		}
	}
	return b.String()
}

// printed returns the output of a statement, if the text determines it.
func printed(stmt *syntax.Stmt) input {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	unknown := input{computed, ""}
	if !ok || len(call.Args) == 0 {
		return unknown
	}
	var list []word
	for _, w := range call.Args {
		list = append(list, words(w)...)
	}
	name, _ := list[0].name()
	list = list[1:]
	switch {
	case name == "echo":
		for len(list) > 0 && list[0].known && (list[0].text == "-n" || list[0].text == "-E") {
			list = list[1:]
		}
	case name == "printf" && len(list) == 2 && list[0].known && (list[0].text == "%s" || list[0].text == `%s\n`):
		list = list[1:]
	case name == "printf" && len(list) == 1 && list[0].known && !strings.Contains(list[0].text, "%"):
		list[0].text = strings.ReplaceAll(list[0].text, `\n`, "\n")
	default:
		return unknown
	}
	text, ok := join(list)
	if !ok || strings.Contains(text, `\`) {
		return unknown // some echo commands interpret escapes
	}
	return input{known, text}
}
