package ignore

import "path/filepath"

// User are the rules for all repositories of the user kaged runs as, and the way to find those of
// one. It is for one walk: all names of tracked files kept for it share one room.
type User struct {
	home  string
	files []string // the user's configuration, the last deciding
	list  string   // the ignore file where no configuration names one
	// MayRead says which files a repository's own configuration may name; nil allows all. The user's may name any.
	MayRead func(real string) bool

	names room // for tracked names
}

// LoadUser finds the user's configuration. lookup reads the environment.
func LoadUser(lookup func(string) (string, bool)) *User {
	home, _ := lookup("HOME")
	dir, ok := lookup("XDG_CONFIG_HOME")
	if !ok || dir == "" {
		dir = filepath.Join(home, ".config")
	}
	user := &User{home: home, list: filepath.Join(dir, "git", "ignore")}
	user.names.left.Store(maxNames)
	if value, ok := lookup("GIT_CONFIG_NOSYSTEM"); !ok || !isTrue(value) {
		system, ok := lookup("GIT_CONFIG_SYSTEM")
		if !ok {
			system = "/etc/gitconfig"
		}
		user.files = append(user.files, system)
	}
	if global, ok := lookup("GIT_CONFIG_GLOBAL"); ok {
		user.files = append(user.files, global)
	} else {
		user.files = append(user.files, filepath.Join(dir, "git", "config"), filepath.Join(home, ".gitconfig"))
	}
	return user
}

// rules are the settings of a user's and a repository's configuration.
type rules struct {
	list *List // core.excludesFile
	fold bool  // core.ignoreCase
	hash int   // the size of object names
}

// rules returns the rules in the repository at top with the git folder git, or outside of
// repositories if that is empty.
func (u *User) rules(top, git string) rules {
	r := newConfigReader(u.home, git)
	r.values["core.excludesfile"] = u.list
	for _, file := range u.files {
		r.read(file, 0)
	}
	byUser := r.values["core.excludesfile"]
	if git != "" {
		r.mayRead = u.MayRead
		r.read(filepath.Join(git, "config"), 0)
	}
	result := rules{fold: isTrue(r.values["core.ignorecase"]), hash: sha1Size}
	if r.values["extensions.objectformat"] == "sha256" {
		result.hash = sha256Size
	}
	excludes := r.values["core.excludesfile"]
	mayRead := u.MayRead
	if excludes == byUser {
		mayRead = nil
	}
	// git stands at the top when it opens the file.
	result.list = Parse(readLinked(r.place(excludes, filepath.Join(top, RepoName)), MaxFile, mayRead), result.fold)
	return result
}

// readLinked is readUpTo for files of the user, which often are links. mayRead is asked about where they lead; nil
// allows all.
func readLinked(path string, limit int64, mayRead func(real string) bool) []byte {
	if mayRead != nil {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !mayRead(real) {
			return nil
		}
		return readUpTo(real, limit)
	}
	return openAndRead(path, 0, limit)
}

// The sizes of object names.
const (
	sha1Size   = 20
	sha256Size = 32
)
