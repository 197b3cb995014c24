package shellguard

import (
	"strings"
)

// command judges a command by the rules, and the commands that it starts.
func (s *search) command(list []word, in input, depth int) {
	if len(list) == 0 {
		return
	}
	// Several readings of the text may lead to one command; judge it once.
	this := judgement{&list[0], len(list), in.kind, depth}
	if s.judged[this] {
		return
	}
	s.judged[this] = true
	if s.work += 8 + len(list); s.work > maxWork {
		s.intricate()
		return
	}
	name, ok := list[0].name()
	if !ok {
		s.unclear("the name of the command is known only when it runs")
		if !list[0].known && list[0].split {
			s.command(list[1:], in, depth) // the first word may expand to nothing
		}
		return
	}
	args := list[1:]
	s.match(name, args)
	s.writes(name, args)
	if w, ok := wrappers[name]; ok {
		s.wrapped(w, args, in, depth)
		return
	}
	if architecture.MatchString(name) {
		s.wrapped(wrapper{options: setarch}, args, in, depth)
		return
	}
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		s.wrapped(wrappers["ld.so"], args, in, depth)
		return
	}
	if shells[name] {
		s.shell(args, in, depth)
		return
	}
	s.special(name, args, in, depth)
}

// shells are the programs that run shell text, by name.
var shells = map[string]bool{
	"sh": true, "bash": true, "dash": true, "ash": true, "zsh": true, "ksh": true, "ksh93": true, "mksh": true,
	"rbash": true,
	"csh":   true, "tcsh": true, "yash": true, "posh": true,
}

// shell judges the text or script that a shell is given.
func (s *search) shell(args []word, in input, depth int) {
	text, stdin := false, false
	for len(args) > 0 {
		a := args[0]
		if !a.known {
			if !text && (a.process || a.split || a.text == "") {
				s.unclear("what the shell runs is known only when it runs")
				return
			}
			break // a script in an unknown folder
		}
		if a.text == "-" || a.text == "--" {
			args = args[1:]
			break
		}
		if len(a.text) < 2 || a.text[0] != '-' && a.text[0] != '+' {
			break
		}
		args = args[1:]
		switch {
		case a.text == "--rcfile" || a.text == "--init-file":
			if len(args) > 0 && args[0].process {
				s.unclear("what the shell runs is known only when it runs")
			}
			args = rest(args, 1)
		case strings.HasPrefix(a.text, "--"):
		default:
			text = text || a.text[0] == '-' && strings.Contains(a.text, "c")
			stdin = stdin || strings.Contains(a.text, "s")
			args = rest(args, strings.Count(a.text, "o")+strings.Count(a.text, "O"))
		}
	}
	switch {
	case text && len(args) == 0:
	case text:
		s.given(args[0], depth)
	case len(args) > 0 && !stdin && !strings.HasPrefix(args[0].text, "/dev/") &&
		!strings.HasPrefix(args[0].text, "/proc/"):
		// The contents of a script file are not judged.
	case in.kind == known:
		s.text(in.text, depth+1)
	case in.kind == file && len(args) == 0:
	case in.kind == terminal:
		s.unclear("the shell runs whatever it is sent")
	default:
		s.unclear("the shell runs what another command prints")
	}
}

func rest(args []word, n int) []word { return args[min(n, len(args)):] }

// given judges a word that is shell text, such as the argument of sh -c.
func (s *search) given(w word, depth int) {
	if !w.known {
		s.unread(w)
		s.unclear("what the shell runs is known only when it runs")
		return
	}
	s.text(w.text, depth+1)
}
