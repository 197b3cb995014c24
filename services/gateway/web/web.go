// Package web has the console's files, which `make web` builds from the sources in this folder. The built files are
// committed, so that building kaged needs no Node.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"io/fs"
	"mime"
	"path"
	"strings"
)

//go:embed dist
var built embed.FS

// File is a file of the console.
type File struct {
	// Type is the media type. Tag is the entity tag.
	Type, Tag string
	// Plain is the content. Packed is the content in gzip, or nil if the build has not packed the file.
	Plain, Packed []byte
}

// Console has the files that browsers load.
type Console struct {
	// Build identifies the console's version. It changes with any file.
	Build string
	shell *template.Template
	files map[string]File
}

// Shell is the data of the page that loads the console.
type Shell struct {
	// AuthMode tells the page how to sign in. Build is the console's version. Nonce is the nonce of the page's content
	// security policy.
	AuthMode, Build, Nonce string
}

// Load reads the embedded files.
func Load() (*Console, error) {
	c := &Console{files: map[string]File{}}
	sum := sha256.New()
	err := fs.WalkDir(built, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := built.ReadFile(name)
		if err != nil {
			return err
		}
		sum.Write(content)
		return c.add(strings.TrimPrefix(name, "dist/"), content)
	})
	c.Build = hex.EncodeToString(sum.Sum(nil))[:12]
	return c, err
}

func (c *Console) add(name string, content []byte) (err error) {
	switch {
	case name == "index.html":
		c.shell, err = template.New(name).Parse(string(content))
		return err
	case name == "SOURCES.sha256":
		return nil
	}
	f := File{Plain: content}
	if plain, ok := strings.CutSuffix(name, ".gz"); ok {
		name, f.Packed = plain, content
		if f.Plain, err = unpacked(content); err != nil {
			return err
		}
	}
	hash := sha256.Sum256(f.Plain)
	f.Tag, f.Type = `"`+hex.EncodeToString(hash[:8])+`"`, typeOf(name)
	c.files[name] = f
	return nil
}

func unpacked(content []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// typeOf returns the media type of a file. It has its own list, because the operating system's table differs
// between machines.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json":
		return "application/manifest+json"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// Page returns the page that loads the console.
func (c *Console) Page(s Shell) ([]byte, error) {
	s.Build = c.Build
	var body bytes.Buffer
	err := c.shell.Execute(&body, s)
	return body.Bytes(), err
}

// File returns a file by its name.
func (c *Console) File(name string) (File, bool) {
	f, ok := c.files[name]
	return f, ok
}

// Names returns the names of all files, in no order.
func (c *Console) Names() (names []string) {
	for name := range c.files {
		names = append(names, name)
	}
	return names
}
