package shellguard

import (
	"slices"
	"strings"
)

// special judges commands that run others in special ways.
func (s *search) special(name string, args []word, in input, depth int) {
	switch name {
	case "eval":
		s.eval(args, depth)
	case "trap":
		s.trap(args, depth)
	case "alias":
		s.alias(args, depth)
	case "hash":
		s.hash(args)
	case ".", "source":
		s.script(args, in, depth)
	case "find":
		s.find(args, in, depth)
	case "fd", "fdfind":
		s.fd(args, in, depth)
	case "git":
		s.git(args, in, depth)
	case "-": // a word of zsh
		s.command(args, in, depth)
	}
}

func (s *search) eval(args []word, depth int) {
	if len(args) > 0 && args[0].known && args[0].text == "--" {
		args = args[1:]
	}
	text, ok := join(args)
	if !ok {
		s.unread(args...)
		s.unclear("what eval runs is known only when it runs")
		return
	}
	s.text(text, depth+1)
}

func (s *search) trap(args []word, depth int) {
	if len(args) > 0 && args[0].known && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) > 0 && args[0].text != "-" {
		s.given(args[0], depth)
	}
}

func (s *search) alias(args []word, depth int) {
	for _, a := range args {
		_, value, is := strings.Cut(a.text, "=")
		switch {
		case !a.known:
			s.unclear("the command of the alias is known only when it runs")
		case is:
			s.text(value, depth+1)
		}
	}
}

// hash can bind a command's name to another file.
func (s *search) hash(args []word) {
	if slices.ContainsFunc(args, func(a word) bool { return a.known && option("-p", a.text) }) {
		s.unclear("it lets a name stand for another command")
	}
}

// script judges a script that is read into the shell; a script in a file is judged by its name.
func (s *search) script(args []word, in input, depth int) {
	if len(args) == 0 {
		return
	}
	if a := args[0]; a.process || strings.HasPrefix(a.text, "/dev/") || !a.known && a.text == "" {
		if a.text == "/dev/stdin" && in.kind == known {
			s.text(in.text, depth+1)
			return
		}
		s.unclear("what the shell runs is known only when it runs")
	}
}

// find judges the actions of find on its results.
func (s *search) find(args []word, in input, depth int) {
	for i := 0; i < len(args); i++ {
		if !args[i].known {
			continue
		}
		switch args[i].text {
		case "-delete":
			s.add(Destructive, "it deletes what it finds")
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(args) &&
				!(args[end].known && (args[end].text == ";" || args[end].text == "+" && args[end-1].text == "{}")) {
				end++
			}
			s.command(marked(args[i+1:end], []string{"{}"}), in, depth)
			i = end
		}
	}
}

// fdOptions are the one-letter options of fd, except those with a command.
var fdOptions = options{short: "HIusigFalLp0qhV1d:E:t:e:S:o:j:c:C:"}

// fd judges the actions of fd on its results.
func (s *search) fd(args []word, in input, depth int) {
	for i, a := range args {
		text, from := a.start(), -1
		switch {
		case text == "--exec" || text == "--exec-batch":
			from = len(text)
		case strings.HasPrefix(text, "--exec="), strings.HasPrefix(text, "--exec-batch="):
			from = strings.IndexByte(text, '=') + 1
		case len(text) > 1 && text[0] == '-' && text[1] != '-':
			for j := 1; j < len(text) && from < 0; j++ {
				if text[j] == 'x' || text[j] == 'X' {
					from = j + 1
				} else if fdOptions.letter(text[j]) == valued {
					break
				}
			}
		}
		if from < 0 {
			continue
		}
		list := args[i+1:]
		if !a.known || from < len(text) {
			list = append([]word{a.after(from)}, list...)
		}
		if end := slices.IndexFunc(list, func(w word) bool { return w.known && w.text == ";" }); end >= 0 {
			list = list[:end]
		}
		s.command(marked(list, []string{"{"}), in, depth)
	}
}
