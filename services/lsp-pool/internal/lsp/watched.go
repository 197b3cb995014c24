package lsp

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// watchedFiles is the method whose registrations name files.
const watchedFiles = "workspace/didChangeWatchedFiles"

const (
	// watcherCount and patternBytes limit the watchers of a registration. A watcher above the limits selects all files.
	watcherCount = 1024
	patternBytes = 4096
)

// watcher selects changes that a server has registered for.
type watcher struct {
	// base is the folder of a relative pattern, "" for a pattern of absolute paths or of paths below the root.
	base, pattern string
	// kinds is a sum of 1 for created, 2 for changed and 4 for deleted files.
	kinds int
}

// allFiles selects every change.
var allFiles = []watcher{{pattern: "**", kinds: 7}}

// parseWatchers reads the options of a registration. Options in an unknown form select all files.
func parseWatchers(options json.RawMessage) []watcher {
	var o struct {
		Watchers []struct {
			GlobPattern json.RawMessage `json:"globPattern"`
			Kind        *int            `json:"kind"`
		} `json:"watchers"`
	}
	if json.Unmarshal(options, &o) != nil || len(o.Watchers) > watcherCount {
		return allFiles
	}
	list := make([]watcher, 0, len(o.Watchers))
	for _, from := range o.Watchers {
		w := watcher{kinds: 7}
		if from.Kind != nil {
			w.kinds = *from.Kind
		}
		var relative struct {
			BaseURI json.RawMessage `json:"baseUri"` // a URI or a workspace folder
			Pattern string          `json:"pattern"`
		}
		if json.Unmarshal(from.GlobPattern, &w.pattern) != nil {
			if json.Unmarshal(from.GlobPattern, &relative) != nil {
				return allFiles
			}
			var folder struct {
				URI string `json:"uri"`
			}
			if json.Unmarshal(relative.BaseURI, &folder.URI) != nil && json.Unmarshal(relative.BaseURI, &folder) != nil {
				return allFiles
			}
			var err error
			if w.base, err = PathOf(folder.URI); err != nil {
				return allFiles
			}
			w.pattern = relative.Pattern
		}
		if len(w.pattern) > patternBytes || !doublestar.ValidatePattern(w.pattern) {
			return allFiles
		}
		list = append(list, w)
	}
	return list
}

// wants reports whether a change is selected.
func (w watcher) wants(root string, change Change) bool {
	if w.kinds&(1<<(change.Kind-1)) == 0 {
		return false
	}
	if w.base != "" {
		return matches(w.pattern, w.base, change.Path)
	}
	absolute, _ := doublestar.Match(strings.TrimPrefix(w.pattern, "/"), strings.TrimPrefix(change.Path, "/"))
	return absolute || matches(w.pattern, root, change.Path)
}

// matches reports whether a path below a folder matches a pattern.
func matches(pattern, folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	if err != nil || !filepath.IsLocal(rel) {
		return false
	}
	ok, _ := doublestar.Match(pattern, rel)
	return ok
}

// watched returns the changes that the server has registered for, or all if it has registered for none.
func (c *Client) watched(changes []Change) []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watchers) == 0 {
		return changes
	}
	list := make([]Change, 0, len(changes))
	for _, change := range changes {
		if c.selects(change) {
			list = append(list, change)
		}
	}
	return list
}

// selects reports whether a registration selects a change. c.mu is held.
func (c *Client) selects(change Change) bool {
	for _, list := range c.watchers {
		for _, w := range list {
			if w.wants(c.opts.Root, change) {
				return true
			}
		}
	}
	return false
}
