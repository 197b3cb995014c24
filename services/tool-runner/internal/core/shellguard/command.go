package shellguard

import (
	"strings"
)

// command judges a command: against the rules, and, where it starts others, those too.
func (s *search) command(list []word, in input, depth int) {
	if s.work += 8 + len(list); s.work > maxWork {
		s.unclear("it is too long or too intricate to be judged")
		return
	}
	if len(list) == 0 {
		return
	}
	name, ok := list[0].name()
	if !ok {
		s.unclear("the name of the command is made when it runs")
		if !list[0].known && list[0].split {
			s.command(list[1:], in, depth) // it may turn out to be nothing
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
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || name == "ld.so" {
		s.wrapped(wrapper{long: []string{"--library-path", "--inhibit-rpath", "--audit", "--preload", "--argv0"}}, args, in, depth)
		return
	}
	if shells[name] {
		s.shell(args, in, depth)
		return
	}
	s.special(name, args, in, depth)
}

// shells run text.
var shells = map[string]bool{
	"sh": true, "bash": true, "dash": true, "ash": true, "zsh": true, "ksh": true, "ksh93": true, "mksh": true, "rbash": true,
	"fish": true, "csh": true, "tcsh": true, "yash": true, "posh": true,
}

// shell judges what a shell is given to run.
func (s *search) shell(args []word, in input, depth int) {
	text, stdin := false, false
	for len(args) > 0 {
		a := args[0]
		if !a.known {
			if a.process || a.split || a.text == "" {
				s.unclear("what the shell runs is made when it runs")
				return
			}
			break // a script in a folder that is not known
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
			args = rest(args, 1)
		case a.text == "--command": // of fish
			text = true
		case strings.HasPrefix(a.text, "--"):
		default:
			text = text || a.text[0] == '-' && strings.Contains(a.text, "c")
			stdin = stdin || strings.Contains(a.text, "s")
			args = rest(args, strings.Count(a.text, "o")+strings.Count(a.text, "O"))
		}
	}
	switch {
	case text && len(args) == 0:
	case text && args[0].known:
		s.text(args[0].text, depth+1)
	case text:
		s.unclear("what the shell runs is made when it runs")
	case len(args) > 0 && !stdin && !strings.HasPrefix(args[0].text, "/dev/") && !strings.HasPrefix(args[0].text, "/proc/"):
		// A script, which is taken at its name.
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

// wrapper is how a program that starts another is called.
type wrapper struct {
	// valued are the short options that take a value, long those long options that take the next word as one.
	valued string
	long   []string
	// operands come before the command.
	operands int
	// assigns says that NAME=VALUE may stand before the command.
	assigns bool
	// quiet are options with which nothing is started.
	quiet string
	// text are options whose value is shell text, joined whether the command is.
	text   string
	joined bool
	// more says that words are added to the command when it runs; marker stands in the command where they go.
	more   bool
	marker string
}

var wrappers = map[string]wrapper{
	"env":       {valued: "uCS", long: []string{"--unset", "--chdir"}, assigns: true, text: "S"},
	"sudo":      {valued: "ughpCrtTUDR", long: []string{"--user", "--group", "--host", "--prompt", "--chdir", "--chroot"}, assigns: true},
	"doas":      {valued: "uC"},
	"pkexec":    {long: []string{"--user"}},
	"nice":      {valued: "n", long: []string{"--adjustment"}},
	"ionice":    {valued: "cnpPu", long: []string{"--class", "--classdata"}},
	"chrt":      {valued: "TPD", operands: 1},
	"taskset":   {operands: 1},
	"setsid":    {},
	"nohup":     {},
	"stdbuf":    {valued: "ioe", long: []string{"--input", "--output", "--error"}},
	"time":      {valued: "fo", long: []string{"--format", "--output"}},
	"timeout":   {valued: "sk", long: []string{"--signal", "--kill-after"}, operands: 1},
	"gtimeout":  {valued: "sk", long: []string{"--signal", "--kill-after"}, operands: 1},
	"command":   {quiet: "vV"},
	"builtin":   {},
	"exec":      {valued: "a"},
	"noglob":    {},
	"nocorrect": {},
	"busybox":   {},
	"toybox":    {},
	"coproc":    {},
	"strace":    {valued: "abeEIoOpPsSuUX"},
	"ltrace":    {valued: "aAeFlnopsuwxX"},
	"unbuffer":  {},
	"catchsegv": {},
	"linux32":   {},
	"linux64":   {},
	"setarch":   {operands: 1},
	"chroot":    {long: []string{"--userspec", "--groups"}, operands: 1},
	"nsenter":   {valued: "tSG", long: []string{"--target"}},
	"unshare":   {valued: "RwSG"},
	"setpriv":   {long: []string{"--reuid", "--regid", "--groups", "--securebits", "--pdeathsig"}},
	"systemd-run": {valued: "pEHMtdu", long: []string{
		"--unit", "--property", "--description", "--slice", "--setenv", "--machine", "--host", "--uid", "--gid", "--nice", "--working-directory",
	}},
	"watch":    {valued: "nqs", long: []string{"--interval"}, joined: true},
	"ssh":      {valued: "bBcDeEFIiJlLmoOpPQRSwW", operands: 1, joined: true},
	"parallel": {valued: "jNIaSC", long: []string{"--jobs", "--arg-file", "--colsep", "--joblog", "--sshlogin"}, joined: true, more: true, marker: "{}"},
	"flock":    {valued: "wEc", long: []string{"--timeout", "--conflict-exit-code", "--command"}, operands: 1, text: "c"},
	"script":   {valued: "cEIOBTm", long: []string{"--command"}, operands: 1, text: "c"},
	"su":       {valued: "csgGw", long: []string{"--command", "--shell"}, operands: 1, text: "c"},
	"runuser":  {valued: "cusgGw", long: []string{"--command", "--shell", "--user"}, operands: 1, text: "c"},
	"xargs": {
		valued: "adEILnPsJR", more: true,
		long: []string{"--arg-file", "--delimiter", "--max-lines", "--max-args", "--max-procs", "--max-chars", "--process-slot-var"},
	},
}

// wrapped judges what a wrapper starts.
func (s *search) wrapped(w wrapper, args []word, in input, depth int) {
	left := w.operands
	for len(args) > 0 {
		a := args[0]
		if !a.known {
			if left > 0 && !a.split {
				left, args = left-1, args[1:]
				continue
			}
			if left > 0 {
				// It may be any number of options and operands: what follows may start at any word.
				for i := 1; i < len(args) && s.work <= maxWork; i++ {
					s.command(args[i:], in, depth)
				}
				return
			}
			break
		}
		text := a.text
		switch {
		case text == "-": // of env and su
			args = args[1:]
		case text == "--":
			args = args[1:]
			if left == 0 || len(args) == 0 {
				s.started(w, args, in, depth)
				return
			}
		case strings.HasPrefix(text, "--"):
			args = s.longOption(&w, text, args[1:], depth)
		case len(text) > 1 && text[0] == '-':
			var over bool
			if args, over = s.shortOptions(&w, text[1:], args[1:], depth); over {
				return
			}
		case w.assigns && strings.Contains(text, "="):
			args = args[1:]
		case left > 0:
			left, args = left-1, args[1:]
		default:
			s.started(w, args, in, depth)
			return
		}
	}
	s.started(w, args, in, depth)
}

// longOption judges a long option of a wrapper and returns the arguments after it.
func (s *search) longOption(w *wrapper, text string, args []word, depth int) []word {
	name, value, has := strings.Cut(text, "=")
	if !has && len(args) > 0 {
		for _, l := range w.long {
			if l == name {
				switch name {
				case "--command":
					s.given(args[0], depth)
				case "--replace":
					w.marker = args[0].text
				}
				return args[1:]
			}
		}
	}
	switch {
	case has && name == "--replace":
		w.marker = value
	case has && (name == "--command" || name == "--split-string"):
		s.text(value, depth+1)
	case name == "--split-string" && len(args) > 0:
		s.given(args[0], depth)
		return args[1:]
	}
	return args
}

// shortOptions judges a group of short options and returns the arguments after it, and whether nothing is started.
func (s *search) shortOptions(w *wrapper, letters string, args []word, depth int) ([]word, bool) {
	for i := 0; i < len(letters); i++ {
		c := letters[i : i+1]
		switch {
		case strings.Contains(w.quiet, c):
			return nil, true
		case !strings.Contains(w.valued, c):
			continue
		}
		value := word{text: letters[i+1:], known: true}
		if value.text == "" {
			if len(args) == 0 {
				return nil, true
			}
			value, args = args[0], args[1:]
		}
		if w.more && (c == "I" || c == "J") && value.known {
			w.marker = value.text
		}
		if strings.Contains(w.text, c) {
			s.given(value, depth)
		}
		break
	}
	return args, false
}

// given judges shell text that is a word.
func (s *search) given(w word, depth int) {
	if !w.known {
		s.unclear("what the shell runs is made when it runs")
		return
	}
	s.text(w.text, depth+1)
}

// started judges the command a wrapper starts.
func (s *search) started(w wrapper, args []word, in input, depth int) {
	if len(args) == 0 && !w.more {
		return
	}
	if w.joined {
		for i, a := range args {
			if a.known && strings.HasPrefix(a.text, ":::") {
				args = args[:i]
				break
			}
		}
		if text, ok := join(args); ok && text != "" && !(w.more && strings.HasPrefix(text, w.marker)) {
			s.text(text, depth+1)
			return
		}
	}
	args = marked(args, w.marker)
	if w.more && (w.joined || len(args) > 0) {
		args = append(args[:len(args):len(args)], word{split: true})
	}
	s.command(args, in, depth)
}

// marked returns arguments of which those that hold the marker are not known.
func marked(args []word, marker string) []word {
	if marker == "" {
		return args
	}
	out := make([]word, len(args))
	for i, a := range args {
		if out[i] = a; a.known && strings.Contains(a.text, marker) {
			out[i] = word{}
		}
	}
	return out
}
