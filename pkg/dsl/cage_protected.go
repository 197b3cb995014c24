package dsl

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Protected is a name from which tools outside the cage run code without a request.
type Protected struct {
	// Name is a path below a folder. It protects the file or folder there with all its contents. Its last element may be
	// a pattern; see [MatchesName].
	Name string
	// Stub is the kind of folder in which an empty folder replaces a missing name while a cage lives.
	Stub StubPlace
	// Reader is the tool that reads it.
	Reader string
}

// StubPlace is the kind of folder in which a [Protected] name gets a stub.
type StubPlace int

// The kinds. A name gets a stub only if its reader ignores an empty folder, because an empty file would disturb most
// readers.
const (
	// NoStub: file tools refuse to create the name; a name created by a command is reported.
	NoStub StubPlace = iota
	// ProjectStub: at the project's root.
	ProjectStub
	// GrantStub: at the project's root and at the root of each writable grant.
	GrantStub
)

// SkillFolders are the folders with the skills of a project. Its agents follow skills, also those without a cage. If
// several folders have a skill of one name, the first counts. Each lies in a name of [ProtectedNames] that gets a stub
// at the project's root.
var SkillFolders = []string{".kaged/skills", ".agents/skills", ".claude/skills"}

// ProtectedNames are the names that stay read-only in every cage unless its policy names them. They are read-only in
// the root of the project, of a writable grant, of a repository and of a nested project; file tools refuse them in
// every folder.
//
// The list omits files that a tool reads only on a request to build, test or run (Makefile, package.json, .npmrc),
// files that it first checks against its own list, and files that can only choose among definitions of a protected
// file: .gitattributes and .git/info/attributes choose among the drivers of .git/config, and .gitmodules is copied
// there by a command that takes no programs from it.
var ProtectedNames = slices.Concat(
	protectedNames(GrantStub, "kaged: agents, their cages, declared commands", ".kaged"),
	protectedNames(GrantStub, "git, at each prompt that shows the state of a repository", ".git"),
	protectedNames(NoStub, "git, where a home folder is granted", ".gitconfig", ".config/git"),
	protectedNames(
		NoStub,
		"other version control, at each prompt that shows the state of a repository",
		".hg/hgrc",
		".hg/hgrc-not-shared",
		".sl/config",
		".jj/repo/config.toml",
	),
	protectedNames(
		NoStub,
		"other version control, where a home folder is granted",
		".hgrc",
		".config/hg",
		".jjconfig.toml",
		".config/jj",
	),
	protectedNames(NoStub, "direnv, on entering the folder", ".envrc"),
	protectedNames(NoStub, "direnv, where a home folder is granted", ".direnvrc", ".config/direnv"),
	protectedNames(ProjectStub, "mise, on entering the folder", ".mise"),
	protectedNames( // the .local names beside patterns: they hold in a folder that cannot be listed too
		NoStub,
		"mise, on entering the folder",
		".miserc.toml",
		".config/miserc.toml",
		".mise.toml",
		"mise.toml",
		".mise.local.toml",
		"mise.local.toml",
		".mise.*.toml",
		"mise.*.toml",
		"mise/conf.d",
		"mise/config.toml",
		"mise/config.local.toml",
		"mise/config.*.toml",
		".config/mise",
		".config/mise.toml",
		".config/mise.local.toml",
		".config/mise.*.toml",
		".rtx.toml",
		".rtx.local.toml",
		".rtx.*.toml",
	),
	protectedNames(NoStub, "asdf and mise, when a prompt or an editor runs a program of theirs", ".tool-versions"),
	protectedNames(
		NoStub,
		"rustup, when a prompt or an editor runs a program of Rust",
		"rust-toolchain",
		"rust-toolchain.toml",
	),
	protectedNames(ProjectStub, "git, as the folder of hooks", ".husky", ".githooks"),
	protectedNames(
		NoStub,
		"hooks of pre-commit and lefthook",
		slices.Concat([]string{".pre-commit-config.yaml"}, lefthookNames())...),
	protectedNames(ProjectStub, "the editor that opens the folder", ".vscode", ".idea", ".zed", ".helix", ".devcontainer"),
	protectedNames(NoStub, "the editor that opens the folder", ".fleet", ".nova", ".devcontainer.json",
		".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".config/nvim", ".vim", ".config/helix", ".config/zed"),
	protectedNames(ProjectStub, "another agent: skills", ".agents"),
	protectedNames(
		ProjectStub,
		"another agent: hooks and MCP servers",
		".claude",
		".cursor",
		".codex",
		".gemini",
		".opencode",
		".windsurf",
		".kiro",
	),
	protectedNames(
		NoStub,
		"another agent: hooks and MCP servers",
		".mcp.json",
		"opencode.json",
		"opencode.jsonc",
		".continue",
		".roo",
		".qwen",
		".amazonq",
		".trae",
		".factory",
		".crush.json",
		"crush.json",
		".aider.conf.yml",
		".config/opencode",
	),
	protectedNames(
		NoStub,
		"the shell that starts or ends, where a home folder is granted",
		".bashrc",
		".bash_profile",
		".bash_login",
		".bash_logout",
		".bash_aliases",
		".profile",
		".zshenv",
		".zshrc",
		".zprofile",
		".zlogin",
		".zlogout",
		".kshrc",
		".mkshrc",
		".cshrc",
		".tcshrc",
		".login",
		".logout",
		".config/fish",
		".config/nushell",
		".config/zsh",
		".config/starship.toml",
		".cargo/env",
	),
	protectedNames(
		NoStub,
		"the shell that looks for a program, where a home folder is granted",
		".local/bin",
		".cargo/bin",
	),
	protectedNames(
		NoStub,
		"the terminal that starts, where a home folder is granted",
		".tmux.conf",
		".config/tmux",
		".wezterm.lua",
		".config/wezterm",
	),
	protectedNames(
		NoStub,
		"the desktop session, where a home folder is granted",
		".config/autostart",
		".config/systemd",
		".config/environment.d",
		".local/share/systemd",
		".xprofile",
		".xinitrc",
		".xsession",
		".xsessionrc",
		".pam_environment",
	),
	protectedNames(NoStub, "ssh and gpg, where a home folder is granted", ".ssh", ".gnupg"),
)

func protectedNames(stub StubPlace, reader string, names ...string) []Protected {
	list := make([]Protected, len(names))
	for i, name := range names {
		list[i] = Protected{Name: name, Stub: stub, Reader: reader}
	}
	return list
}

// lefthookNames are the names that lefthook reads, including local ones.
func lefthookNames() (names []string) {
	for _, base := range []string{
		"lefthook", ".lefthook", "lefthook-local", ".lefthook-local", ".config/lefthook", ".config/lefthook-local",
	} {
		for _, extension := range []string{".yml", ".yaml", ".toml", ".json", ".jsonc"} {
			names = append(names, base+extension)
		}
	}
	return names
}

// ProtectedGit are the read-only paths below a folder in which git keeps a repository. commondir would move the
// configuration and the hooks to another folder. In modules the folders of repositories stay writable, except for these
// paths. No new folder can be created there, because `git submodule update` would use its configuration for the
// submodule.
var ProtectedGit = []string{"hooks", "config", "config.worktree", "commondir", "modules"}

// MatchesName reports whether a name is an element of a [Protected.Name]: in a pattern "*" stands for any text but the
// empty one. The name is compared in the spelling of [FoldName].
func MatchesName(element, name string) bool {
	name = FoldName(name)
	before, after, pattern := strings.Cut(element, "*")
	if !pattern {
		return name == element
	}
	return len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// protectedByFirst maps the first element of the protected names to their elements, in the spelling of [FoldName].
// protectedPatterns holds the elements of the names whose first element contains a `*`.
var protectedByFirst, protectedPatterns = func() (m map[string][][]string, patterns [][]string) {
	m = map[string][][]string{}
	for _, p := range ProtectedNames {
		parts := strings.Split(FoldName(p.Name), "/")
		if strings.Contains(parts[0], "*") {
			patterns = append(patterns, parts)
			continue
		}
		m[parts[0]] = append(m[parts[0]], parts)
	}
	return m, patterns
}()

// protectedFrom returns the elements of the protected names that may begin with the element first.
func protectedFrom(first string) [][]string {
	names := protectedByFirst[FoldName(first)]
	for _, parts := range protectedPatterns {
		if MatchesName(parts[0], first) {
			names = append(slices.Clip(names), parts)
		}
	}
	return names
}

// ProtectedBelow returns what follows the element first in each protected name that begins with it, "" for a name of
// one element, in the spelling of [FoldName].
func ProtectedBelow(first string) (rest []string) {
	for _, parts := range protectedFrom(first) {
		rest = append(rest, strings.Join(parts[1:], "/"))
	}
	return rest
}

// ReaderOf returns the tool that reads the protected name at the end of a path, "" for an unprotected path.
func ReaderOf(path string) string {
	parts := strings.Split(FoldName(path), "/")
	for _, p := range ProtectedNames {
		name := strings.Split(p.Name, "/")
		if at := len(parts) - len(name); at >= 0 && slices.EqualFunc(name, parts[at:], MatchesName) {
			return p.Reader
		}
	}
	return ""
}

// ProtectedPart returns the outermost part of a path that is protected in every folder, and false if it has none. In a
// .git folder these are the parts that make git run code. Names are compared in the spelling of [FoldName].
func ProtectedPart(path string) (string, bool) {
	if ends := protectedEnds(path); len(ends) > 0 {
		return firstParts(path, slices.Min(ends)), true
	}
	return "", false
}

// ProtectedPartBelow is [ProtectedPart] for the parts of a path that end below dir, a folder around it. They may begin
// above: git in .config.
func ProtectedPartBelow(path, dir string) (string, bool) {
	known := strings.Count(dir, "/") + 1
	ends := slices.DeleteFunc(protectedEnds(path), func(end int) bool { return end <= known })
	if len(ends) == 0 {
		return "", false
	}
	return firstParts(path, slices.Min(ends)), true
}

// ProtectedAcross reports whether a path in a project lies in a protected name that begins above the project, or in its
// root's own name: git in a project .config. A policy's text need not show such a name.
func ProtectedAcross(path, root string) bool {
	rel, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return false
	}
	known := strings.Count(root, "/") + 1
	inside := protectedEnds(rel)
	return slices.ContainsFunc(protectedEnds(path), func(end int) bool {
		return end > known && !slices.Contains(inside, end-known)
	})
}

// innermostProtected is [ProtectedPart] for the innermost part.
func innermostProtected(path string) (string, bool) {
	if ends := protectedEnds(path); len(ends) > 0 {
		return firstParts(path, slices.Max(ends)), true
	}
	return "", false
}

func firstParts(path string, n int) string { return strings.Join(strings.Split(path, "/")[:n], "/") }

// protectedEnds returns the lengths, in elements, of the protected parts of a path.
func protectedEnds(path string) (ends []int) {
	parts := strings.Split(FoldName(path), "/")
	if strings.Count(path, "/")+1 != len(parts) {
		return []int{strings.Count(path, "/") + 1} // no element of a real path folds to one with a slash
	}
	for start, first := range parts {
		if first == ".git" {
			for end := start + 1; end < len(parts); end++ {
				inner := end == start+1 || parts[start+1] == "modules" || parts[start+1] == "worktrees"
				if inner && slices.Contains(ProtectedGit, parts[end]) {
					ends = append(ends, end+1)
				}
			}
			continue
		}
		for _, name := range protectedFrom(first) {
			if end := start + len(name); end <= len(parts) && slices.EqualFunc(name, parts[start:end], MatchesName) {
				ends = append(ends, end)
			}
		}
	}
	return ends
}

// FoldName returns the common form of a name or path on file systems that ignore case: folded as by ext4 and f2fs, and
// without the trailing dots and spaces of an element, which FAT drops.
func FoldName(name string) string {
	folded := strings.ToLower(name)
	if strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		folded = strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
				return -1
			}
			return r
		}, norm.NFD.String(name))
		folded = norm.NFD.String(cases.Fold().String(folded))
	}
	if !strings.Contains(folded, "./") && !strings.Contains(folded, " /") && !strings.HasSuffix(folded, ".") &&
		!strings.HasSuffix(folded, " ") {
		return folded
	}
	parts := strings.Split(folded, "/")
	for i, part := range parts {
		if short := strings.TrimRight(part, ". "); short != "" {
			parts[i] = short
		}
	}
	return strings.Join(parts, "/")
}

// ProtectedTable is the table of the protected names for the reference, in Markdown: by reader, with the rule for a
// missing name.
func ProtectedTable() string {
	holds := map[StubPlace]string{
		GrantStub:   "prevented: a stub at the project's root and at that of each writable grant; elsewhere reported",
		ProjectStub: "prevented: a stub at the project's root; elsewhere reported",
		NoStub:      "reported",
	}
	var b strings.Builder
	b.WriteString("| names | read by | a shell that makes one | file tools |\n|---|---|---|---|\n")
	for i, p := range ProtectedNames {
		if i == 0 || p.Reader != ProtectedNames[i-1].Reader || p.Stub != ProtectedNames[i-1].Stub {
			b.WriteString("| ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString("`" + p.Name + "`")
		if i+1 == len(ProtectedNames) || p.Reader != ProtectedNames[i+1].Reader || p.Stub != ProtectedNames[i+1].Stub {
			b.WriteString(" | " + p.Reader + " | " + holds[p.Stub] + " | refused |\n")
		}
	}
	return b.String()
}

// WithProtectedTable returns a page with [ProtectedTable] between its markers, "<!-- protected names: begin -->" and
// end.
func WithProtectedTable(page string) (string, error) {
	const begin, end = "<!-- protected names: begin -->\n", "<!-- protected names: end -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", errors.New("the page has no markers for the table of protected names")
	}
	return before + begin + ProtectedTable() + end + after, nil
}
