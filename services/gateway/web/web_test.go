package web_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kaged.dev/services/gateway/web"
)

// sources lists the parts of the tree from which the console is built, as scripts/pack.js does.
var sources = []string{
	"clients/ts/src", "services/gateway/web/src", "services/gateway/web/scripts", "services/gateway/web/public",
	"services/gateway/web/index.html", "services/gateway/web/vite.config.ts", "services/gateway/web/package.json",
	"services/gateway/web/package-lock.json",
}

// The committed console was built from the committed sources. After a change, `make web` rebuilds it.
func TestTheConsoleIsBuiltFromItsSources(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	var names []string
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(root, source), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "types.gen.ts" { // types do not affect the built files
				name, _ := filepath.Rel(root, path)
				names = append(names, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	var want strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&want, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	got, err := os.ReadFile("dist/SOURCES.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("services/gateway/web/dist is not built from these sources: type  make web  and commit dist.\n"+
			"built from:\n%s\nnow:\n%s", got, want.String())
	}
}

// The console is small: under 1.5 MB in the binary, and a browser loads at most 120 KB before it can use it.
func TestTheConsoleIsSmall(t *testing.T) {
	t.Parallel()
	c, err := web.Load()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, name := range c.Names() {
		f, _ := c.File(name)
		total += len(f.Plain)
		if strings.HasSuffix(name, ".map") || bytes.Contains(f.Plain, []byte("sourceMappingURL")) {
			t.Errorf("%s: a source map", name)
		}
		if regexp.MustCompile(`-[A-Za-z0-9_-]{8}\.(js|css)$`).MatchString(name) {
			t.Errorf("%s: the name is not stable", name)
		}
	}
	if total > 1_500_000 {
		t.Errorf("the console has %d bytes, want at most 1500000", total)
	}
	page, err := c.Page(web.Shell{})
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	for _, match := range regexp.MustCompile(`(?:src|href)="/static/([^"]+\.(?:js|css))"`).FindAllSubmatch(page, -1) {
		f, ok := c.File(string(match[1]))
		if !ok {
			t.Errorf("the page names %s, which is missing", match[1])
		}
		first += len(f.Packed)
	}
	if first == 0 || first > 120*1024 {
		t.Errorf("a browser first loads %d bytes, want at most %d", first, 120*1024)
	}
	t.Logf("%d bytes in all, %d first in gzip", total, first)
}

// The packed and the plain content of a file are the same.
func TestPackedFiles(t *testing.T) {
	t.Parallel()
	c, err := web.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range c.Names() {
		f, _ := c.File(name)
		if f.Packed == nil {
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(f.Packed))
		if err != nil {
			t.Fatal(err)
		}
		var plain bytes.Buffer
		if _, err := plain.ReadFrom(r); err != nil || !bytes.Equal(plain.Bytes(), f.Plain) || f.Type == "" ||
			f.Tag == "" {
			t.Errorf("%s: %v, type %q, tag %q", name, err, f.Type, f.Tag)
		}
	}
}
