// Package scaffold makes a folder a kaged project and binds the operator's model aliases to a provider that is at hand.
package scaffold

import (
	"bytes"
	"embed"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"kaged.dev/pkg/fault"
)

//go:embed template
var templates embed.FS

// DefaultAlias is the alias a new project's agent uses.
const DefaultAlias = "smart-generalist"

// Project is a project to be made.
type Project struct {
	// Dir is its folder.
	Dir string
	// Slug is its id; empty derives one from the folder's name.
	Slug string
	// Force replaces files that are there.
	Force bool
}

var (
	slugForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
	notInSlug = regexp.MustCompile(`[^a-z0-9]+`)
)

// Write makes the project's files and returns their paths relative to its folder, in the order they were written. It
// fails with file_exists where one is there and Force is not set, before it has written any.
func Write(p Project) (slug string, written []string, err error) {
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return "", nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", nil, fault.New(fault.NotFound, "%s is not a folder.", p.Dir)
	}
	slug = p.Slug
	if slug == "" {
		slug = slugOf(filepath.Base(dir))
	}
	if !slugForm.MatchString(slug) {
		return "", nil, fault.New(fault.ValidationFailed, "The project's name %q may hold a-z, 0-9 and inner hyphens only; choose one with --name.", slug)
	}
	files, err := render(slug)
	if err != nil {
		return "", nil, err
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, f.path)); err == nil && !p.Force {
			return "", nil, fault.New(fault.FileExists, "%s is there already; use --force to replace it.", f.path)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, fault.Wrap(err, fault.FileIO, "%s cannot be opened.", p.Dir)
	}
	defer root.Close()
	for _, f := range files {
		if err := root.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return "", written, fault.Wrap(err, fault.FileIO, "%s cannot be made.", filepath.Dir(f.path))
		}
		if err := root.WriteFile(f.path, f.content, 0o644); err != nil {
			return "", written, fault.Wrap(err, fault.FileIO, "%s cannot be written.", f.path)
		}
		written = append(written, f.path)
	}
	return slug, written, nil
}

type file struct {
	path    string
	content []byte
}

func render(slug string) ([]file, error) {
	data := map[string]string{"Project": slug, "Alias": DefaultAlias, "Description": strconv.Quote("The agents of " + slug + ".")}
	var files []file
	for _, f := range [...]struct{ path, template string }{
		{".kaged/project.yaml", "template/project.yaml"},
		{".kaged/prompts/primary.md", "template/primary.md"},
		{".kaged/.gitignore", "template/gitignore"},
	} {
		t, err := template.ParseFS(templates, f.template)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, data); err != nil {
			return nil, err
		}
		files = append(files, file{f.path, b.Bytes()})
	}
	return files, nil
}

// slugOf makes a slug of any name, "project" where nothing is left of it.
func slugOf(name string) string {
	s := strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(s) > 64 {
		s = strings.Trim(s[:64], "-")
	}
	if s == "" {
		return "project"
	}
	return s
}
