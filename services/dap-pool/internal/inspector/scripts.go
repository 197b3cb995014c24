package inspector

import (
	"encoding/base64"
	"io"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxScripts is the maximum number of known scripts; later ones are ignored.
const maxScripts = 50_000

// script is a piece of code that the runtime has loaded.
type script struct {
	id, url string
	path    string // "" for a script without a file
	smap    *sourceMap
	sources []string // the files from which it was made, "" for a file of the bundler
}

// parsed is the runtime's event about a script.
type parsed struct {
	ScriptID     string `json:"scriptId"`
	URL          string `json:"url"`
	SourceMapURL string `json:"sourceMapURL"`
}

// load adds a script with its source map and returns it, nil for a script without a name.
func (b *bridge) load(p parsed) *script {
	if p.URL == "" {
		return nil
	}
	s := &script{id: p.ScriptID, url: p.URL, path: b.dialect.file(p.URL)}
	if p.SourceMapURL != "" && s.path != "" {
		if m, folder := b.readMap(s.path, p.SourceMapURL); m != nil {
			s.smap = m
			s.sources = b.sourcesOf(s, m, folder)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.scripts) >= maxScripts {
		return nil
	}
	b.scripts[s.id] = s
	return s
}

// sourcesOf returns the files from which a script was made.
func (b *bridge) sourcesOf(s *script, m *sourceMap, folder string) []string {
	if b.dialect.translates && len(m.sources) == 1 {
		return []string{s.path} // the map has another name for the file
	}
	var files []string
	for _, name := range m.sources {
		if u, err := url.PathUnescape(name); err == nil {
			name = u
		}
		switch {
		case strings.HasPrefix(name, "file://"):
			name = strings.TrimPrefix(name, "file://")
		case strings.Contains(name, "://"):
			files = append(files, "") // a file of the bundler
			continue
		case name != "" && !filepath.IsAbs(name):
			name = filepath.Join(folder, name)
		}
		if name != "" {
			name = filepath.Clean(name)
		}
		files = append(files, name)
	}
	return files
}

// readMap reads the source map of a script, which is in the address itself or in a file of the project. It returns the
// map with the folder of its relative names.
func (b *bridge) readMap(script, address string) (*sourceMap, string) {
	folder := filepath.Dir(script)
	if data, ok := strings.CutPrefix(address, "data:"); ok {
		kind, text, ok := strings.Cut(data, ",")
		if !ok || len(text) > 2*mapBytes {
			return nil, ""
		}
		var content []byte
		var err error
		if strings.HasSuffix(kind, ";base64") {
			content, err = base64.StdEncoding.DecodeString(text)
		} else if text, err = url.PathUnescape(text); err == nil {
			content = []byte(text)
		}
		if err != nil {
			return nil, ""
		}
		m, _ := parseMap(content) // a script with an invalid map counts as a script without a map
		return m, folder
	}
	name := strings.TrimPrefix(address, "file://")
	if u, err := url.PathUnescape(name); err == nil {
		name = u
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(folder, name)
	}
	content, err := readBelow(b.opts.Root, name)
	if err != nil {
		return nil, ""
	}
	m, _ := parseMap(content)
	return m, filepath.Dir(name)
}

// readBelow reads a regular file below a folder; links do not lead out of it.
func readBelow(folder, path string) ([]byte, error) {
	rel, err := filepath.Rel(folder, path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // the open does not wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errMap
	}
	return io.ReadAll(io.LimitReader(f, mapBytes+1))
}

// place is a line of a source file.
type place struct {
	path         string
	line, column int // from 1
	exact        bool
}

// written returns the source position of a location. b.mu is held.
func (b *bridge) written(at location) place {
	s := b.scripts[at.ScriptID]
	if s == nil {
		return place{}
	}
	if s.smap != nil {
		if to, exact, ok := s.original(at.position()); ok {
			to.exact = exact
			return to
		}
	}
	return place{s.path, at.LineNumber + 1, at.ColumnNumber + 1, true}
}

// original returns the source position of a position in a script.
func (s *script) original(at position) (to place, exact, ok bool) {
	i, pos, exact, ok := s.smap.original(at)
	if !ok || s.sources[i] == "" {
		return place{}, false, false
	}
	return place{path: s.sources[i], line: pos.line + 1, column: pos.column + 1}, exact, true
}

// target is a position in the running code.
type target struct {
	url string
	at  position
}

// targets returns the known positions in the running code for a line of a file, from 1. b.mu is held.
func (b *bridge) targets(path string, line int) []target {
	var list []target
	seen := map[string]bool{}
	mapped := false
	for _, s := range b.known() {
		i := slices.Index(s.sources, path)
		if s.smap == nil || i < 0 {
			continue
		}
		mapped = true
		if at, ok := s.smap.generated(i, line-1); ok && !seen[s.url] {
			seen[s.url] = true
			list = append(list, target{s.url, at})
		}
	}
	if !mapped && (!b.dialect.translates || b.knows(path)) {
		list = append(list, target{b.dialect.url(path), position{line: line - 1}})
	}
	return list
}

// known returns the loaded scripts and those that are expected to be loaded. b.mu is held.
func (b *bridge) known() iter.Seq2[int, *script] {
	return func(yield func(int, *script) bool) {
		n := 0
		loaded := map[string]bool{}
		for _, s := range b.scripts {
			loaded[s.url] = true
			if n++; !yield(n, s) {
				return
			}
		}
		for _, s := range b.foreseen {
			if n++; !loaded[s.url] && !yield(n, s) {
				return
			}
		}
	}
}

// knows reports whether a script with a path is loaded. b.mu is held.
func (b *bridge) knows(path string) bool {
	for _, s := range b.scripts {
		if s.path == path {
			return true
		}
	}
	return false
}
