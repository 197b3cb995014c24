package inspector

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The limits of a search for source maps.
const (
	maxLooked    = 20_000   // the number of files and folders
	maxLookBytes = 64 << 20 // the size of the source maps
)

// codeExtensions are the extensions of files that a runtime runs without translation.
var codeExtensions = []string{".js", ".mjs", ".cjs"}

// foresee searches the project for scripts made from a file, by their source maps. The runtime loads most scripts
// without a stop before they run, so a breakpoint in the source of such a script has to be set before. b.changing is
// held.
func (b *bridge) foresee(path string) {
	if b.dialect.translates || slices.Contains(codeExtensions, filepath.Ext(path)) || b.looked[path] {
		return
	}
	b.looked[path] = true
	root, err := os.OpenRoot(b.opts.Root)
	if err != nil {
		return
	}
	defer root.Close()
	looked, left := 0, maxLookBytes
	_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if looked++; looked > maxLooked || left < 0 {
			return fs.SkipAll
		}
		switch {
		case err != nil:
			return nil // an unreadable folder counts as empty
		case entry.IsDir() && name != "." && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !strings.HasSuffix(name, "js.map"):
			return nil
		}
		file := filepath.Join(b.opts.Root, name)
		content, err := readBelow(b.opts.Root, file)
		if left -= len(content); err != nil || !strings.Contains(string(content), filepath.Base(path)) {
			return nil
		}
		b.expect(strings.TrimSuffix(file, ".map"), path, content)
		return nil
	})
}

// expect adds a script that will be loaded, if it was made from a file.
func (b *bridge) expect(code, path string, content []byte) {
	m, err := parseMap(content)
	if err != nil {
		return
	}
	s := &script{url: b.dialect.url(code), path: code, smap: m}
	s.sources = b.sourcesOf(s, m, filepath.Dir(code))
	b.mu.Lock()
	defer b.mu.Unlock()
	known := slices.ContainsFunc(b.foreseen, func(o *script) bool { return o.url == s.url })
	if !known && slices.Contains(s.sources, path) {
		b.foreseen = append(b.foreseen, s)
	}
}
