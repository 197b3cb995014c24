package dsl

import (
	"slices"
	"strings"
)

// ProtectedNames are the paths, below the root of a project, of a repository or of a writable folder, that stay read-only in
// every cage unless its policy names them: tools outside the cage run code they find there, without being asked. Besides them
// stands what makes git run code, in whatever folder it keeps: see [ProtectedGit].
//
// Not among them is what a tool reads only when somebody asks it to build, test or run (Makefile, package.json, .npmrc), what
// it holds against a list of its own first, and what can only pick from what a protected file defines: .gitattributes and
// .git/info/attributes choose among the drivers of .git/config, and .gitmodules is copied there by a command that takes no
// programs from it.
var ProtectedNames = []string{
	".kaged", // the project itself: agents, their cages, commands that are tools
	".git",   // the whole of it where it is a file that leads elsewhere, or not there; else as ProtectedGit says
	".gitconfig", ".config/git",
	".envrc", ".mise.toml", "mise.toml", // run on entering the folder
	".husky", ".githooks", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", // run by hooks that are there already
	".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", // tasks and programs of editors that open the folder
	".claude", ".cursor", ".codex", ".gemini", ".mcp.json", // hooks and servers of other agents
	".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshenv", ".zshrc", ".zprofile", ".zlogin", // where a home is granted
	".config/fish", ".config/autostart", ".config/systemd", ".ssh",
}

// ProtectedGit are the paths below a folder in which git keeps a repository that stay read-only likewise. commondir is one of
// them because it would move the configuration and the hooks elsewhere.
var ProtectedGit = []string{"hooks", "config", "config.worktree", "commondir"}

// protectedPart returns the outermost part of a path that is protected whatever folder it stands in, and false if none is.
func protectedPart(path string) (string, bool) {
	parts := strings.Split(path, "/")
	for end := 1; end <= len(parts); end++ {
		for start := range end {
			if isProtected(parts[start:end]) {
				return strings.Join(parts[:end], "/"), true
			}
		}
	}
	return "", false
}

func isProtected(parts []string) bool {
	if parts[0] == ".git" && len(parts) > 1 {
		last := parts[len(parts)-1]
		inner := len(parts) == 2 || parts[1] == "modules" || parts[1] == "worktrees"
		return inner && slices.Contains(ProtectedGit, last)
	}
	name := strings.Join(parts, "/")
	return name != ".git" && slices.Contains(ProtectedNames, name)
}
