package lsp

import (
	"encoding/json"
	"testing"
)

// A server receives the changes that it has registered for: by pattern, relative or not, and by kind. Options in an
// unknown form select all changes.
func TestWatchers(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		options string
		change  Change
		want    bool
	}{
		"a pattern": {
			`{"watchers":[{"globPattern":"**/*.{go,mod}"}]}`,
			Change{"/p/a/b.go", Changed},
			true,
		},
		"another file": {
			`{"watchers":[{"globPattern":"**/*.{go,mod}"}]}`,
			Change{"/p/a/b.txt", Changed},
			false,
		},
		"at the root": {
			`{"watchers":[{"globPattern":"*.json"}]}`,
			Change{"/p/a.json", Created},
			true,
		},
		"not below the root": {
			`{"watchers":[{"globPattern":"*.json"}]}`,
			Change{"/p/b/a.json", Created},
			false,
		},
		"an absolute pattern": {
			`{"watchers":[{"globPattern":"/p/**/*.ts"}]}`,
			Change{"/p/b/a.ts", Created},
			true,
		},
		"of another kind": {
			`{"watchers":[{"globPattern":"**","kind":5}]}`,
			Change{"/p/a", Changed},
			false,
		},
		"of one of the kinds": {
			`{"watchers":[{"globPattern":"**","kind":5}]}`,
			Change{"/p/a", Deleted},
			true,
		},
		"below a folder": {
			`{"watchers":[{"globPattern":{"baseUri":"file:///p/b","pattern":"*.go"}}]}`,
			Change{"/p/b/a.go", Changed},
			true,
		},
		"beside the folder": {
			`{"watchers":[{"globPattern":{"baseUri":"file:///p/b","pattern":"*.go"}}]}`,
			Change{"/p/a.go", Changed},
			false,
		},
		"below a named folder": {
			`{"watchers":[{"globPattern":{"baseUri":{"uri":"file:///p","name":"p"},"pattern":"**"}}]}`,
			Change{"/p/b/a", Changed},
			true,
		},
		"one of two": {
			`{"watchers":[{"globPattern":"*.c"},{"globPattern":"**/*.h"}]}`,
			Change{"/p/b/a.h", Changed},
			true,
		},
		"no watchers":      {`{"watchers":[]}`, Change{"/p/a", Changed}, false},
		"a broken pattern": {`{"watchers":[{"globPattern":"[a"}]}`, Change{"/p/b", Changed}, true},
		"a folder of elsewhere": {
			`{"watchers":[{"globPattern":{"baseUri":"https://p","pattern":"*"}}]}`,
			Change{"/p/b", Changed},
			true,
		},
		"nonsense": {`[1]`, Change{"/p/b", Changed}, true},
	} {
		list := parseWatchers(json.RawMessage(x.options))
		c := &Client{opts: Options{Root: "/p"}, watchers: map[string][]watcher{"1": list}}
		if got := len(c.watched([]Change{x.change})) == 1; got != x.want {
			t.Errorf("%s: told is %v", name, got)
		}
	}
	if c := (&Client{}); len(c.watched([]Change{{"/p/a", Changed}})) != 1 {
		t.Error("a server without a registration is told nothing")
	}
}
