package shellguard

import (
	"regexp"
	"slices"
	"strings"
)

// gitOptions are the options before git's own command.
var gitOptions = wrapper{options: options{
	"C:c:pPvh",
	"git-dir= work-tree= namespace= super-prefix= config-env= attr-source= list-cmds= exec-path? html-path man-path " +
		"info-path " +
		"paginate no-pager no-replace-objects no-lazy-fetch bare " +
		"no-optional-locks no-advice literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs help version",
}}

// gitCommands are git's commands with options that hold shell text.
var gitCommands = map[string]wrapper{
	"rebase": {options: options{"x:s:X:C:", "exec= onto= keep-base strategy= strategy-option= whitespace= " +
		"empty="}, alone: true, text: "x exec"},
	"difftool": {options: options{"x:t:", "extcmd= tool= gui"}, alone: true, text: "x extcmd"},
	"filter-branch": {
		options: options{"d:", "setup= subdirectory-filter= env-filter= tree-filter= index-filter= parent-filter= " +
			"msg-filter= commit-filter= tag-name-filter= original= state-branch= prune-empty"},
		alone: true,
		text: "setup " +
			"env-filter tree-filter index-filter parent-filter msg-filter commit-filter tag-name-filter",
	},
	"clone": {options: options{"u:o:b:j:c:", "upload-pack= template= reference= reference-if-able= separate-git-dir= " +
		"origin= branch= revision= depth= shallow-since= shallow-exclude= server-option= jobs= config= filter= bundle-uri= " +
		"ref-format="}, alone: true, text: "u upload-pack"},
	"fetch": {
		options: options{long: "upload-pack= update-head-ok update-shallow unshallow"},
		alone:   true,
		text:    "upload-pack",
	},
	"pull":      {options: options{long: "upload-pack= update-shallow unshallow"}, alone: true, text: "upload-pack"},
	"ls-remote": {options: options{long: "upload-pack= exec="}, alone: true, text: "upload-pack exec"},
	"push": {options: options{"o:", "receive-pack= exec= repo= push-option= " +
		"recurse-submodules="}, alone: true, text: "receive-pack exec"},
	"archive": {options: options{"o:", "exec= remote= format= output= prefix="}, alone: true, text: "exec"},
	"grep": {options: options{"O::e:f:A:B:C:m:", "open-files-in-pager? or only-matching"}, alone: true, text: "O " +
		"open-files-in-pager"},
	"send-email": {
		options: options{long: "sendmail-cmd= to-cmd= cc-cmd= header-cmd="},
		alone:   true,
		text: "sendmail-cmd " +
			"to-cmd cc-cmd header-cmd",
	},
}

// gitSettings are the settings that hold shell text.
var gitSettings = regexp.MustCompile(
	`(?i)^(?:alias\..+|pager\..+|sequence\.editor|interactive\.difffilter|uploadpack\.packobjectshook|` +
		`core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy|alternaterefscommand)|diff\.(?:external|.+\.command|.+\.textconv)|` +
		`(?:diff|merge)tool\..+\.cmd|` +
		`merge\..+\.driver|filter\..+\.(?:clean|smudge|process)|credential\.(?:.+\.)?helper|gpg\.(?:.+\.)?program|` +
		`trailer\..+\.(?:command|cmd)|` +
		`remote\..+\.(?:uploadpack|receivepack)|submodule\..+\.update|(?:browser|man)\..+\.cmd|sendemail\..*cmd|tar\..+\.command)$`,
)

// git judges the shell texts and commands that a git command runs.
func (s *search) git(args []word, in input, depth int) {
	for i, a := range args {
		switch text := a.start(); {
		case (text == "-c" || text == "--config") && a.known && i+1 < len(args):
			s.setting(args[i+1], depth)
		case strings.HasPrefix(text, "--config="):
			s.setting(a.after(len("--config=")), depth)
		case strings.HasPrefix(text, "-c"):
			s.setting(a.after(len("-c")), depth)
		}
	}
	for _, at := range gitCommandsAt(args) {
		if at < len(args) && args[at].known {
			s.gitCommand(args[at].text, args[at+1:], in, depth)
		}
	}
}

// gitCommandsAt returns the positions in git's arguments where its command may be.
func gitCommandsAt(args []word) []int {
	l := launch{search: new(search), w: gitOptions, args: args, seen: map[place]bool{}}
	l.read()
	return l.starts
}

// gitCommandAt returns the first of these positions.
func gitCommandAt(args []word) int {
	for _, at := range gitCommandsAt(args) {
		return at
	}
	return len(args)
}

// gitCommand judges one of git's commands.
func (s *search) gitCommand(name string, args []word, in input, depth int) {
	if w, ok := gitCommands[name]; ok {
		s.wrapped(w, args, in, depth)
		return
	}
	switch at := slices.IndexFunc(args, func(a word) bool { return a.known && !strings.HasPrefix(a.text, "-") }); {
	case at < 0:
	case name == "config":
		for i := at; i+1 < len(args); i++ {
			if args[i].known && gitSettings.MatchString(args[i].text) {
				s.set(args[i].text, args[i+1], depth)
			}
		}
	case name == "bisect" && args[at].text == "run":
		s.command(args[at+1:], in, depth)
	case name == "submodule" && args[at].text == "foreach":
		s.wrapped(wrapper{options: options{"q", "quiet recursive"}, joined: true}, args[at+1:], in, depth)
	}
}

// setting judges NAME=VALUE in git's form.
func (s *search) setting(a word, depth int) {
	if name, _, is := strings.Cut(a.start(), "="); is && gitSettings.MatchString(name) {
		s.set(name, a.after(len(name)+1), depth)
	}
}

// set judges the value of a setting: an alias is a git command unless it begins with an exclamation mark.
func (s *search) set(name string, value word, depth int) {
	switch text, shell := strings.CutPrefix(value.start(), "!"); {
	case !value.known || shell:
		s.given(value.after(len(value.start())-len(text)), depth)
	case strings.HasPrefix(strings.ToLower(name), "alias."):
		s.text("git "+text, depth+1)
	default:
		s.text(text, depth+1)
	}
}
