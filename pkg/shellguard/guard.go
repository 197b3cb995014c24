package shellguard

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Class is the severity of a command. A higher class is worse.
type Class int

// The classes.
const (
	// Fine commands run without approval.
	Fine Class = iota
	// Destructive commands need approval.
	Destructive
	// Blocked commands do not run, even with approval.
	Blocked
)

// Verdict is the judgement of a text or an argument list.
type Verdict struct {
	// Class is the worst class of the findings, Fine without findings.
	Class Class
	// Findings are the reasons for Class, in the order of the text, at most [MaxFindings] of each class.
	Findings []Finding
	// whole is the judged text, shortened like the commands of findings.
	whole string
}

// MaxFindings is the maximum number of findings kept of a class.
const MaxFindings = 8

// Finding is one command that is not fine.
type Finding struct {
	Class Class
	// Command is the command as written in the text, shortened.
	Command string
	// Reason is a sentence without the command: "rm is in blocked_commands".
	Reason string
}

// Reasons returns the findings of a class as sentences, each with its command unless the command is the whole text.
func (v Verdict) Reasons(class Class) []string {
	var list []string
	for _, f := range v.Findings {
		switch {
		case f.Class != class:
		case f.Command == v.whole:
			list = append(list, f.Reason+".")
		default:
			list = append(list, fmt.Sprintf("%s: %s.", f.Command, f.Reason))
		}
	}
	return list
}

// Rules are the rules for commands that are not fine. A rule is a command's name, followed by words that must be among
// its arguments: "rm", "mkfs*", "chmod 777", "git push --force". Words are patterns of [path.Match] in which * also
// matches slashes; an option of one letter is also found in a group ("-f" in "-df"); modes of chmod are compared as
// numbers.
type Rules struct {
	Blocked, Destructive []string
	// System are paths whose change is destructive, with all paths below them: absolute ones, and relative ones in any
	// folder.
	System []string
	// Home is the value of ~.
	Home string
}

// Guard judges commands by rules. It is immutable.
type Guard struct {
	rules  []rule
	system []string
	home   string
	// dir is the commands' folder, root the root of the project; both empty if unknown.
	dir, root string
}

type rule struct {
	class Class
	text  string
	name  string
	words []string
}

// New returns a guard. It fails for an empty rule and for an invalid pattern.
func New(rules Rules) (*Guard, error) {
	g := &Guard{home: rules.Home}
	for _, list := range []struct {
		class Class
		texts []string
	}{{Blocked, rules.Blocked}, {Destructive, rules.Destructive}} {
		for _, text := range list.texts {
			words := strings.Fields(text)
			if len(words) == 0 {
				return nil, fmt.Errorf("a rule for commands is empty")
			}
			for _, w := range words {
				if _, err := path.Match(w, ""); err != nil {
					return nil, fmt.Errorf("the rule %q for commands is no pattern: %w", text, err)
				}
			}
			g.rules = append(g.rules, rule{list.class, strings.Join(words, " "), strings.ToLower(words[0]), words[1:]})
		}
	}
	for _, p := range rules.System {
		g.system = append(g.system, path.Clean(atHome(strings.TrimSuffix(p, "/**"), rules.Home)))
	}
	return g, nil
}

// In returns the guard for commands in a folder of a project; both paths are absolute.
func (g *Guard) In(dir, root string) *Guard {
	in := *g
	in.dir, in.root = dir, root
	return &in
}

// Text judges shell text.
func (g *Guard) Text(text string) Verdict {
	s := g.search()
	s.text(text, 0)
	return s.verdict(text)
}

// Typed judges text typed into a program that may be a shell or another program. It adds findings only for commands
// that match a rule, or may match one. Text that does not parse gives no finding, because it may be meant for another
// program.
func (g *Guard) Typed(text string) Verdict {
	s := g.search()
	s.typed = true
	s.text(text, 0)
	return s.verdict(text)
}

// Argv judges a program with its arguments, which no shell expands.
func (g *Guard) Argv(argv []string) Verdict {
	s := g.search()
	s.source = Quote(argv)
	s.command(literals(argv), nothing, 0)
	return s.verdict(Quote(argv))
}

// match adds a finding for each rule that the command matches, or may match.
func (s *search) match(name string, args []word) {
	for i := range s.guard.rules {
		r := &s.guard.rules[i]
		if ok, _ := path.Match(r.name, name); !ok {
			continue
		}
		switch fit := r.fits(name, args); {
		case fit == certainly && r.class == Blocked:
			s.add(Blocked, r.text+" is in blocked_commands")
		case fit == certainly:
			s.add(Destructive, r.text+" is in destructive_commands")
		case fit == perhaps:
			s.add(Destructive, "it may be "+r.text+", which is known only when it runs")
		}
	}
}

// fit is the degree to which a command's arguments contain the words of a rule.
type fit int

const (
	not fit = iota
	perhaps
	certainly
)

func (r *rule) fits(name string, args []word) fit {
	found := certainly
	open := operand(name, args)
	for _, want := range r.words {
		switch {
		case among(want, name, args):
		case !strings.HasPrefix(want, "-") && open != nil && open.mayBe(want):
			found = perhaps
		default:
			return not
		}
	}
	return found
}

func among(want, name string, args []word) bool {
	if _, mode := permissions(want); mode && name == "chmod" {
		return givesMode(want, args)
	}
	for _, a := range args {
		if !a.known {
			continue
		}
		if ok, _ := path.Match(unslashed.Replace(want), unslashed.Replace(a.text)); ok {
			return true
		}
		if option(want, a.text) {
			return true
		}
	}
	return false
}

// unslashed replaces slashes before path.Match, so that * in a rule also matches them.
var unslashed = strings.NewReplacer("/", "\x01")

// option reports whether an argument gives an option: a short one alone or in a group (-f in -df), a long one with or
// without =value, or a prefix of a long one with at least three letters.
func option(want, arg string) bool {
	if long, isLong := strings.CutPrefix(want, "--"); isLong {
		got, ok := strings.CutPrefix(arg, "--")
		got, _, _ = strings.Cut(got, "=")
		return ok && len(got) >= 3 && strings.HasPrefix(long, got)
	}
	return len(want) == 2 && want[0] == '-' && len(arg) > 1 && arg[0] == '-' && arg[1] != '-' &&
		strings.Contains(arg[1:], want[1:])
}

// operand returns the first argument that is not an option, or nil if its text is known.
func operand(name string, args []word) *word {
	if name == "git" {
		args = args[gitCommandAt(args):]
	}
	for i := range args {
		switch a := &args[i]; {
		case !a.known:
			return a
		case !strings.HasPrefix(a.text, "-"):
			return nil
		}
	}
	return nil
}

// mayBe reports whether an unknown word may become the word that a rule wants.
func (w *word) mayBe(want string) bool {
	plain := want
	if at := strings.IndexAny(want, `*?[\`); at >= 0 {
		plain = want[:at]
	}
	return strings.HasPrefix(plain, w.lead) || plain != want && strings.HasPrefix(w.lead, plain)
}

// harmless are paths below /dev without data of the system, and the names that shells open as network connections. They
// do not count as system paths even if a rule names /dev.
var harmless = [...]string{
	"/dev/null", "/dev/zero", "/dev/tty", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd", "/dev/shm", "/dev/pts",
	"/dev/tcp", "/dev/udp",
}

// IsSystem reports whether a path is a system path or below one. It does not resolve links.
func (g *Guard) IsSystem(name string) bool {
	name = path.Clean(atHome(name, g.home))
	for _, harmless := range harmless {
		if below(name, harmless) {
			return false
		}
	}
	if g.root != "" && path.IsAbs(name) {
		return g.SystemPath(name, g.root) != ""
	}
	return g.inAnyFolder(name) || slices.ContainsFunc(g.system, func(p string) bool { return below(name, p) })
}

// inAnyFolder reports whether a path matches a relative system path, such as .git, in any folder.
func (g *Guard) inAnyFolder(name string) bool {
	return slices.ContainsFunc(g.system, func(p string) bool { return !path.IsAbs(p) && within(name, p) })
}

// SystemPath returns the rule that makes a file a system path, "" for none; abs is its resolved path, root the
// project's root. A project inside a system folder may change its own files. A relative rule, such as .git, matches in
// every folder of the project, because each folder may hold a repository or a project.
func (g *Guard) SystemPath(abs, root string) string {
	rel := abs
	if below(abs, root) {
		rel = strings.TrimPrefix(abs[len(root):], "/")
	}
	for _, p := range g.system {
		switch {
		case !path.IsAbs(p) && within(rel, p), path.IsAbs(p) && below(abs, p) && !(below(root, p) && below(abs, root)):
			return p
		}
	}
	return ""
}

// within reports whether a path contains the relative path rel in any folder, or is below it.
func within(name, rel string) bool {
	return below(name, rel) || strings.HasSuffix(name, "/"+rel) || strings.Contains(name, "/"+rel+"/")
}

func below(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// atHome returns a path with ~ replaced.
func atHome(name, home string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		return home + name[1:]
	}
	return name
}
