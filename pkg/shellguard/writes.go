package shellguard

import (
	"path"
	"slices"
	"strings"
)

// writer describes a command that changes the paths in its arguments.
type writer struct {
	options
	// all means that it changes all its operands, last that it changes the last one, unless an option of into gives the
	// target.
	all, last bool
	// into are options whose value is a changed file, by their letters and names. with are options; without one of them
	// the command changes no file. script means that the first operand is a script unless a script option was given.
	into, with, script string
}

// writers are the commands that are known to change paths, by name.
var writers = map[string]writer{
	"tee":      {options: options{"aip", "append ignore-interrupts output-error? help version"}, all: true},
	"touch":    {options: options{"acfhmd:r:t:", "date= reference= time= no-create no-dereference"}, all: true},
	"mkdir":    {options: options{"m:pvZ", "mode= parents verbose context?"}, all: true},
	"mkfifo":   {options: options{"m:Z", "mode= context?"}, all: true},
	"mknod":    {options: options{"m:Z", "mode= context?"}, all: true},
	"truncate": {options: options{"cor:s:", "no-create io-blocks reference= size="}, all: true},
	"chmod":    {options: options{"cfvRHLP", "reference= recursive changes silent quiet verbose"}, all: true},
	"chown": {options: options{"cfvhRHLP", "from= reference= recursive changes silent quiet verbose dereference " +
		"no-dereference"}, all: true},
	"chgrp": {
		options: options{"cfvhRHLP", "reference= recursive changes silent quiet verbose dereference no-dereference"},
		all:     true,
	},
	"chattr":  {all: true},
	"setfacl": {options: options{"bkdRLPm:x:M:X:", "modify= remove= set= restore="}, all: true},
	"rmdir":   {all: true}, "unlink": {all: true}, "rm": {all: true},
	"shred": {
		options: options{"fun:s:vxz", "force iterations= random-source= size= remove? verbose exact zero"},
		all:     true,
	},
	"mv": {options: options{"bfiunvTZS:t:", "target-directory= suffix= backup? " +
		"no-target-directory"}, all: true, into: "t target-directory"},
	"cp": {options: options{"abdfHilLnPpRrsTuvxZS:t:", "target-directory= suffix= backup? preserve? no-preserve= " +
		"no-target-directory sparse= reflink? context?"}, last: true, into: "t target-directory"},
	"ln": {options: options{"bdFfiLnPrsTvS:t:", "target-directory= suffix= backup? " +
		"no-target-directory"}, last: true, into: "t target-directory"},
	"install": {
		options: options{"bcCdDpsTvZg:m:o:S:t:", "target-directory= suffix= backup? group= mode= owner= directory " +
			"strip-program= context?"},
		last: true,
		into: "t target-directory",
	},
	"rsync": {
		options: options{"f:B:T:M:e:", "rsh= rsync-path= filter= exclude= include= files-from= temp-dir= backup-dir= " +
			"log-file="},
		last: true,
		into: "backup-dir log-file",
	},
	"scp": {options: options{short: "346ABCOpqRrsTvc:D:F:i:J:l:o:P:S:X:"}, last: true},
	"sed": {options: options{"nErsuzi::e:f:l:b", "in-place? quiet silent debug expression= file= line-length= null-data " +
		"posix regexp-extended separate sandbox unbuffered zero-terminated follow-symlinks binary help " +
		"version"}, all: true, with: "i in-place", script: "e f expression file"},
	"perl": {options: options{"acfnpsStTuUvVwWXF:I:e:E:M:m:C::D::i::l::0::x::", ""}, all: true, with: "i", script: "e E"},
	"dd":   {all: true},
	"sort": {options: options{"k:o:S:t:T:", "output="}, into: "o output"},
	"curl": {options: options{"o:D:c:K:d:F:H:T:u:X:A:b:e:x:m:w:", "output= output-dir= dump-header= cookie-jar= trace= " +
		"trace-ascii= data= header= form="}, into: "o D c output output-dir dump-header cookie-jar trace trace-ascii"},
	"wget": {options: options{"O:o:a:P:e:t:T:w:Q:U:B:i:A:R:D:I:X:l:n:", "output-document= output-file= append-output= " +
		"directory-prefix="}, into: "O o a P output-document output-file append-output directory-prefix"},
	"tar": {options: options{"C:f:T:X:b:g:H:I:K:L:N:V:F:xcrtuvzjJapkmhlwPSOiW", "directory= file= extract " +
		"get"}, into: "C directory", with: "x extract get"},
	"unzip": {options: options{short: "d:x:P:"}, into: "d"},
	"patch": {options: options{"o:i:d:p:D:r:B:V:F:Y:z:g:", "output= input= directory= strip= " +
		"reject-file="}, all: true, into: "o d output directory reject-file"},
}

// writes looks for system paths changed by a command.
func (s *search) writes(name string, args []word) {
	w, ok := writers[name]
	switch {
	case name == "find":
		for i, a := range args[:max(0, len(args)-1)] {
			if a.known && (strings.HasPrefix(a.text, "-fprint") || a.text == "-fls") {
				s.changes(args[i+1])
			}
		}
		return
	case !ok:
		return
	}
	u := use{search: s, w: w, changing: w.with == ""}
	u.read(args)
	switch {
	case !u.changing:
		return
	case w.script != "" && !u.scripted && len(u.operands) > 0:
		u.operands = u.operands[1:]
	case w.last && len(u.targets) == 0 && len(u.operands) > 0:
		u.targets = u.operands[len(u.operands)-1:]
	}
	for _, a := range u.targets {
		s.changes(a)
	}
	if w.all {
		for _, a := range u.operands {
			s.changes(a)
		}
	}
}

// use are the parsed arguments of a writer.
type use struct {
	*search
	w                 writer
	operands, targets []word
	// changing and scripted mean that an option of with, and of script, is among its arguments.
	changing, scripted bool
}

func (u *use) read(args []word) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		text := a.start()
		switch {
		case text == "--" && a.known:
			u.operands = append(u.operands, args[i+1:]...)
			return
		case strings.HasPrefix(text, "--"):
			name, _, has := strings.Cut(text[2:], "=")
			names, kind := u.w.named(name)
			if has {
				u.option(names, a.after(len(name)+3))
			} else if u.option(names, word{known: true}); kind == valued && i+1 < len(args) {
				i++
				u.option(names, args[i])
			}
		case len(text) > 1 && text[0] == '-':
			for j := 1; j < len(text); j++ {
				kind, value := u.w.letter(text[j]), a.after(j+1)
				if kind == flag || kind == either {
					u.option([]string{text[j : j+1]}, word{known: true})
					continue
				}
				if kind == valued && value.known && value.text == "" && i+1 < len(args) {
					i++
					value = args[i]
				}
				u.option([]string{text[j : j+1]}, value)
				break
			}
		case strings.HasPrefix(text, "of="): // an operand of dd
			u.operands = append(u.operands, a.after(len("of=")))
		default:
			u.operands = append(u.operands, a)
		}
	}
	// tar also accepts its letters without a hyphen.
	if len(u.operands) > 0 && u.w.with != "" && u.w.into != "" && strings.Contains(u.operands[0].text, "x") {
		u.changing = true
	}
}

func (u *use) option(names []string, value word) {
	is := func(list string) bool {
		return slices.ContainsFunc(strings.Fields(list), func(name string) bool { return slices.Contains(names, name) })
	}
	u.changing = u.changing || is(u.w.with)
	u.scripted = u.scripted || is(u.w.script)
	if is(u.w.into) && (!value.known || value.text != "") {
		u.targets = append(u.targets, value)
	}
}

// changes adds a finding for a system path in a word.
func (s *search) changes(w word) {
	if name := s.system(w); name != "" {
		s.add(Destructive, "it changes the system path "+name)
	}
}

// system returns the system path in a word, as written, "" without one. The known beginning and end of an unknown word
// may suffice.
func (s *search) system(w word) string {
	name := w.path
	if w.known {
		name = w.text
	}
	if name == "" {
		at := strings.LastIndexByte(w.lead, '/')
		name = w.lead[:at+1]
		if tail := strings.IndexByte(w.text, '/'); tail >= 0 && s.guard.inAnyFolder(path.Clean(w.text[tail:])) {
			return "…" + w.text[tail:]
		}
	}
	if name == "" {
		return ""
	}
	if s.guard.IsSystem(name) {
		return name
	}
	if full := atHome(name, s.guard.home); !path.IsAbs(full) {
		for _, dir := range s.dirs {
			if s.guard.IsSystem(path.Join(dir, full)) {
				return path.Join(dir, full)
			}
		}
	}
	return ""
}
