package ignore

import "path/filepath"

// Settings are the values of git's configuration for one repository.
type Settings struct {
	values  config
	home    string
	top     string
	mayRead func(real string) bool
	user    map[string]string // the paths that the user's own configuration names
	fold    bool
}

// Settings reads the user's configuration and that of the repository at top, of which common is the shared git folder.
func (u *User) Settings(top, common string) Settings {
	r := newConfigReader(u.home, common)
	for _, file := range u.files {
		r.read(file, 0)
	}
	byUser := map[string]string{}
	for key, value := range r.values {
		byUser[key] = value
	}
	r.mayRead = u.MayRead
	r.read(filepath.Join(common, "config"), 0)
	return Settings{
		values: r.values, home: u.home, top: top, mayRead: u.MayRead, user: byUser,
		fold: isTrue(r.values["core.ignorecase"]),
	}
}

// Get returns the value of "section.key" or "filter.NAME.key", "" without one. Section and key are in lower case.
func (s Settings) Get(key string) string { return s.values[key] }

// Is reports whether a value is true.
func (s Settings) Is(key string) bool { return isTrue(s.values[key]) }

// Fold reports whether patterns match letters in either case.
func (s Settings) Fold() bool { return s.fold }

// File returns the content of the small file that a setting names, or that of the default, nil if it cannot be read. A
// file that only the repository's configuration names is read if [User.MayRead] allows it.
func (s Settings) File(key, byDefault string) []byte {
	name, mayRead := s.values[key], s.mayRead
	if name == s.user[key] {
		mayRead = nil
	}
	if name == "" {
		name = byDefault
	}
	r := configReader{home: s.home}
	return readLinked(r.place(name, filepath.Join(s.top, RepoName)), MaxFile, mayRead)
}

// UserAttributes is the user's attribute file if no setting names another.
func (u *User) UserAttributes() string { return filepath.Join(filepath.Dir(u.list), "attributes") }

// ReadFile returns the content of a small regular file, nil if it cannot be read. It follows no link at the path's end.
func ReadFile(path string) []byte { return readFile(path) }

// Steps bounds the work of matching one name with patterns.
const Steps = maxSubject

// Match reports whether a pattern of git matches text, and how many of the steps are left. In a path, "*" does not
// match a slash and "**" does.
func Match(pattern, text string, path, fold bool, steps int) (matched bool, left int) {
	return wildmatch(pattern, text, path, fold, steps)
}
