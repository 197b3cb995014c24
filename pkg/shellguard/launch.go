package shellguard

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// launch reads the arguments of a wrapper in every possible way: an unknown option may take the next word as its value
// or not. Each position is examined once, however many readings lead to it.
type launch struct {
	*search
	w     wrapper
	args  []word
	in    input
	depth int
	todo  []place
	seen  map[place]bool
	// starts are the positions where the command may begin.
	starts []int
	// marks are the placeholders in the command that are replaced by added words.
	marks []string
	// dirs are the folders that options set for the command.
	dirs []string
	// told is true if an option gave shell text.
	told bool
}

// place is a position of a reading: the next argument, the number of remaining operands, and whether options have
// ended.
type place struct {
	at, left int
	ended    bool
}

// wrapped judges the command that a wrapper starts.
func (s *search) wrapped(w wrapper, args []word, in input, depth int) {
	l := launch{search: s, w: w, args: args, in: in, depth: depth, seen: map[place]bool{}}
	l.read()
	if w.alone {
		return
	}
	l.args = marked(args, l.marks)
	defer func(dirs []string) { s.dirs = dirs }(s.dirs)
	s.dirs = union(s.dirs, l.dirs)
	for _, at := range l.starts {
		l.start(at)
	}
}

// read finds the positions where the command may begin.
func (l *launch) read() {
	l.next(place{left: l.w.operands})
	for len(l.todo) > 0 {
		if l.work++; l.work > maxWork {
			l.intricate()
			break
		}
		p := l.todo[len(l.todo)-1]
		l.todo = l.todo[:len(l.todo)-1]
		l.step(p)
	}
	slices.Sort(l.starts)
	l.starts = slices.Compact(l.starts)
}

func (l *launch) next(p place) {
	if !l.seen[p] {
		l.seen[p] = true
		l.todo = append(l.todo, p)
	}
}

func (l *launch) step(p place) {
	if p.at >= len(l.args) {
		l.starts = append(l.starts, len(l.args))
		return
	}
	a := l.args[p.at]
	on := place{p.at + 1, p.left, p.ended}
	switch {
	case !a.known && p.left > 0 && a.split:
		// The numbers of options and operands are unknown: the command may start at any word.
		for i := p.at + 1; i <= len(l.args); i++ {
			l.starts = append(l.starts, i)
		}
	case l.w.assigns && !strings.HasPrefix(a.start(), "-") && strings.Contains(a.start(), "="):
		l.next(on)
		l.torn(a, p)
	case p.ended:
		l.operand(p)
	case strings.HasPrefix(a.lead, "--") && strings.Contains(a.lead, "="):
		l.long(a, on)
		l.torn(a, p)
	case len(a.lead) > 1 && a.lead[0] == '-' && a.lead[1] != '-':
		l.short(a, on)
		l.torn(a, p)
	case !a.known:
		l.operand(p)
	case a.text == "-": // an option of env and su
		l.next(on)
	case a.text == "--":
		on.ended = true
		l.next(on)
	case strings.HasPrefix(a.text, "--"):
		l.long(a, on)
	case strings.HasPrefix(a.text, "-"):
		l.short(a, on)
	default:
		l.operand(p)
	}
}

// operand reads a word that is not an option.
func (l *launch) operand(p place) {
	optional := p.left == 1 && l.w.optional != nil
	if p.left == 0 || optional {
		l.starts = append(l.starts, p.at)
	}
	switch a := l.args[p.at]; {
	case optional && a.known && !l.w.optional.MatchString(a.text):
	case p.left > 0:
		l.next(place{p.at + 1, p.left - 1, p.ended})
	case l.w.alone:
		l.next(place{p.at + 1, 0, p.ended})
	}
}

// torn reads a word that may split into several; the words after its first part may be the command.
func (l *launch) torn(a word, p place) {
	if a.split {
		l.operand(p)
	}
}

// long reads a long option; on is the position after it.
func (l *launch) long(a word, on place) {
	name, _, has := strings.Cut(a.start()[2:], "=")
	names, kind := l.w.named(name)
	if has {
		l.option(names, a.after(len(name)+3), on)
		return
	}
	if kind == flag || kind == attached || kind == either {
		l.option(names, word{known: true}, on)
	}
	switch {
	case kind == paired:
		on.at += 2
		l.next(on)
	case (kind == valued || kind == either) && on.at < len(l.args):
		value := l.args[on.at]
		on.at++
		l.option(names, value, on)
	}
}

// short reads a group of one-letter options; on is the position after it.
func (l *launch) short(a word, on place) {
	letters := a.start()[1:]
	for i := range len(letters) {
		name := letters[i : i+1]
		if strings.Contains(l.w.quiet, name) {
			return
		}
		kind, value := l.w.letter(letters[i]), a.after(i+2)
		after := on
		if kind == flag {
			continue
		}
		if value.known && value.text == "" && kind != attached && on.at < len(l.args) {
			value = l.args[on.at]
			after.at++
		}
		if kind != either {
			l.option([]string{name}, value, after)
			return
		}
		l.option(nil, value, after)
	}
	l.next(on)
}

// settings are the options of ssh whose values are shell text.
var settings = regexp.MustCompile(
	`(?i)^\s*(?:proxycommand|localcommand|remotecommand|knownhostscommand)(?:\s*=\s*|\s+)`,
)

// option judges the value of an option with one of the given names; on is the position after it.
func (l *launch) option(names []string, value word, on place) {
	is := func(list string) bool {
		for name := range strings.FieldsSeq(list) {
			if slices.Contains(names, name) {
				return true
			}
		}
		return false
	}
	switch {
	case is(l.w.splits):
		l.split(value, on)
		return
	case is(l.w.text):
		l.told = true
		if strings.HasPrefix(value.start(), "exec=") { // of tar --checkpoint-action
			value = value.after(len("exec="))
		}
		l.given(value, l.depth)
	case is(l.w.settings):
		if at := settings.FindString(value.start()); at != "" {
			l.given(value.after(len(at)), l.depth)
		}
	case is(l.w.folder):
		l.dirs = union(l.dirs, enter(l.search.dirs, value, l.guard.home))
	case is(l.w.markers) && value.known:
		mark := value.text
		if mark == "" {
			mark = "{}"
		}
		l.marks = append(l.marks, mark)
	}
	l.next(on)
}

// split judges a command with several of its words in one value.
func (l *launch) split(value word, on place) {
	rest := l.args[min(on.at, len(l.args)):]
	if !value.known {
		l.unread(value)
		l.unclear("the name of the command is known only when it runs")
		l.wrapped(l.w, rest, l.in, l.depth+1)
		return
	}
	var list []word
	spaced := strings.NewReplacer(`\_`, " ", `\t`, " ", `\n`, " ", `\v`, " ", `\f`, " ", `\r`, " ").Replace(value.text)
	for w, err := range syntax.NewParser().WordsSeq(strings.NewReader(spaced)) {
		if err != nil {
			l.unclear("it cannot be read as a command")
			break
		}
		list = append(list, read(w))
	}
	if l.work += len(value.text) + len(rest); l.depth < maxDepth {
		l.wrapped(l.w, append(list, rest...), l.in, l.depth+1)
		return
	}
	l.hidden("texts for shells are nested too deep to be judged")
}

// replaced matches the placeholders of parallel.
var replaced = regexp.MustCompile(`\{[^{}\s;]*\}`)

// start judges the command that begins at a word.
func (l *launch) start(at int) {
	args := l.args[at:]
	if l.w.shell {
		if len(args) > 0 || !l.told {
			l.shell(args, l.in, l.depth)
		}
		if !l.w.command {
			return
		}
	}
	if len(args) == 0 && !l.w.more {
		return
	}
	if l.w.joined {
		for i, a := range args {
			if a.known && strings.HasPrefix(a.text, ":::") {
				args = args[:i]
				break
			}
		}
		l.unread(args...)
		if text, ok := join(args); ok && text != "" {
			if l.w.more {
				text = replaced.ReplaceAllString(text, "$$_")
			}
			l.text(text, l.depth+1)
			return
		}
	}
	if l.w.more && (l.w.joined || len(args) > 0) {
		args = append(args[:len(args):len(args)], word{split: true})
	}
	l.command(args, l.in, l.depth)
}

// marked returns the arguments, with those that contain a mark as unknown.
func marked(args []word, marks []string) []word {
	if len(marks) == 0 {
		return args
	}
	out := slices.Clone(args)
	for i, a := range out {
		if a.known && slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(a.text, m) }) {
			out[i] = word{}
		}
	}
	return out
}
