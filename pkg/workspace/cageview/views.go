package cageview

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ownpath"
)

// How many views are kept, and for how long: as long as a repository that appears inside a project may be without
// protection.
const (
	keptViews = 64
	keptFor   = 2 * time.Second
)

// Views resolves policies, and keeps the results for the next calls of the same agents. It is safe for concurrent use.
//
// A kept view may be older than the files: a granted path that has become a link since then grants no access, since
// calls are checked by the real ends of their paths, and act below an open folder without following links. A path that
// is gone, or was made anew, is noticed.
type Views struct {
	options []cage.Option
	now     func() time.Time

	mu   sync.Mutex // guards kept
	kept map[string]keptView
}

type keptView struct {
	view  *cage.View
	found []os.FileInfo // by View.Grants, nil for a missing path
	made  time.Time
}

// NewViews returns empty Views. forbidden are kaged's own paths, which no policy can grant. memory is a folder that
// keeps the places of found repositories; it may be "".
func NewViews(forbidden []ownpath.Path, memory string) *Views {
	options := []cage.Option{cage.Forbidden(forbidden...), cage.Remember(cage.NewMemory(memory))}
	return &Views{options: options, now: time.Now, kept: map[string]keptView{}}
}

// Access returns the access that policy grants in the project at root, an absolute folder without links.
func (v *Views) Access(policy *dsl.Cage, root string) Access {
	a := Access{policy: policy}
	if policy == nil {
		return a
	}
	text, err := json.Marshal(policy)
	if err != nil {
		return Access{policy: policy, err: err}
	}
	key := root + "\x00" + string(text)
	v.mu.Lock()
	kept, ok := v.kept[key]
	v.mu.Unlock()
	if ok && v.now().Sub(kept.made) < keptFor && kept.holds() {
		a.view = kept.view
		return a
	}
	made := v.now()
	if a.view, a.err = cage.Compile(policy, root, v.options...); a.err != nil {
		return a
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.kept) >= keptViews {
		clear(v.kept)
	}
	v.kept[key] = keptView{a.view, look(a.view), made}
	return a
}

// look returns the states of a view's paths.
func look(v *cage.View) []os.FileInfo {
	found := make([]os.FileInfo, len(v.Grants))
	for i, g := range v.Grants {
		if info, err := os.Lstat(g.Path); err == nil {
			found[i] = info
		}
	}
	return found
}

// holds reports whether the same files and folders are still at the paths of the view.
func (k keptView) holds() bool {
	for i, now := range look(k.view) {
		was := k.found[i]
		switch {
		case was == nil && now == nil:
		case was == nil || now == nil:
			return false
		case was.IsDir() != now.IsDir(): // a new folder may have the inode of a removed file
			return false
		case !os.SameFile(was, now) && !k.view.Grants[i].Protected:
			return false
		}
	}
	return true
}
