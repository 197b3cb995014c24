package shellguard

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Plain returns the words of a text that is one call of a program with its arguments, as every shell reads it: no other
// command, redirection, assignment or comment, and no part that a shell expands. It returns nil for any other text. It
// also returns nil if the first two words do not describe the command's work: for programs that start or interpret
// other programs, and for a leading option.
func Plain(text string) []string {
	if strings.ContainsAny(text, "\n\r\x00") {
		return nil
	}
	var words []string
	for _, lang := range []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash} {
		read, ok := plainWords(text, lang)
		if !ok || words != nil && !slices.Equal(words, read) {
			return nil
		}
		words = read
	}
	if len(words) < 2 || words[1] == "" || strings.HasPrefix(words[1], "-") || !tells(words[0]) {
		return nil
	}
	return words
}

// tells reports whether a program's name and arguments describe its work: the name has no path, is not part of a shell,
// and the program does not start or read another program named by its arguments.
func tells(name string) bool {
	if strings.Contains(name, "/") || name != strings.ToLower(name) || name == "" {
		return false
	}
	if _, starts := wrappers[name]; starts {
		return false
	}
	return !slices.ContainsFunc(vague, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// vague are programs besides [wrappers] whose work is in their arguments or their input.
var vague = []string{
	".", ":", "alias", "bg", "cd", "eval", "exec", "export", "fg", "hash", "read", "set", "source", "test", "trap", "type",
	"unset", "wait", "*sh", "ash", "sh*", "python*", "pypy*", "perl*", "ruby*", "irb", "node*", "nodejs", "bun",
	"bunx", "deno", "npx",
	"tsx", "ts-node", "php*", "lua*", "tcl*", "expect*", "r", "rscript", "julia", "java", "jshell", "scala*",
	"groovy*", "kotlin*", "ghci",
	"runghc", "*awk*", "sed", "gsed", "ed", "ex", "vi*", "nvim", "emacs*", "m4", "bc", "dc", "gdb", "lldb", "dlv",
	"find", "fd", "fdfind",
	"git-*", "ssh*", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "docker*", "podman*",
	"nerdctl", "kubectl*",
	"oc", "nsenter", "unshare", "chroot", "systemd-run", "systemctl", "machinectl", "bwrap", "firejail", "flatpak",
	"tmux*", "screen",
	"at", "batch", "crontab", "tee", "dd", "install", "xargs", "parallel", "watch", "entr", "script*", "su", "runuser",
	"make*",
	"gmake", "cmake*", "ninja", "just", "task", "rake", "nix*", "curl", "wget", "osascript", "open", "xdg-open", "start",
}

// plainWords returns the words of a text in one language, and false if it is more than one plain call.
func plainWords(text string, lang syntax.LangVariant) ([]string, bool) {
	file, err := syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) != 1 || len(file.Last) > 0 {
		return nil, false
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || s.Semicolon.IsValid() ||
		len(s.Redirs)+len(s.Comments)+len(call.Assigns) > 0 {
		return nil, false
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		for _, part := range w.Parts {
			value, ok := plainPart(part)
			if !ok {
				return nil, false
			}
			words[i] += value
		}
	}
	return words, true
}

// plainPart returns the value of a part of a word, and false if a shell may expand it.
func plainPart(part syntax.WordPart) (string, bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		return p.Value, !strings.ContainsAny(p.Value, "\\*?[]{}~$`!^#")
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	case *syntax.DblQuoted:
		if p.Dollar {
			return "", false
		}
		value := ""
		for _, inner := range p.Parts {
			lit, ok := inner.(*syntax.Lit)
			if !ok || strings.ContainsAny(lit.Value, "\\$`!") {
				return "", false
			}
			value += lit.Value
		}
		return value, true
	}
	return "", false
}
