// Package scaffold makes a folder a kaged project and binds the operator's model aliases to an available provider.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

//go:embed template
var templates embed.FS

// DefaultAlias is the alias a new project's agent uses.
const DefaultAlias = "smart-generalist"

// Project is a project to create.
type Project struct {
	// Dir is its folder.
	Dir string
	// Slug is its id. If it is empty, it is derived from the folder's name, and existing files are accepted.
	Slug string
	// Force replaces existing files.
	Force bool
	// Cage is the cage of its agent. If the project's folder cannot be granted, the cage is off, with the reason.
	Cage Cage
	// Forbidden are kaged's own paths, which no cage may show.
	Forbidden []ownpath.Path
}

// Made is the result of [Write].
type Made struct {
	// Slug is the project's id in the written files.
	Slug string
	// Written and Kept are the paths of the project's files relative to its folder, in order: the written ones, and the
	// existing ones that were kept.
	Written, Kept []string
	// Cage is the cage in the project file, if Write wrote that file.
	Cage Cage
}

var (
	slugForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	notInSlug = regexp.MustCompile(`[^a-z0-9]+`)
)

// Write creates the project's files. It keeps existing files unless Force is true: a project that already has its
// files, for example in a clone of its repository, is not changed. Existing files may not match a new slug, so that
// Write then fails with file_exists before it writes any file.
func Write(p Project) (Made, error) {
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return Made{}, err
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Made{}, fault.New(fault.NotFound, "There is no folder %s; make it first.", dir)
	}
	if err != nil || !info.IsDir() {
		return Made{}, fault.New(fault.NotFound, "%s is not a folder.", p.Dir)
	}
	m := Made{Slug: p.Slug}
	if m.Slug == "" {
		m.Slug = slugOf(filepath.Base(dir))
	}
	if !slugForm.MatchString(m.Slug) {
		return Made{}, fault.New(
			fault.ValidationFailed,
			"The project's name %q may hold a-z, 0-9 and inner hyphens only, at most %d of them; choose one with --name.",
			m.Slug,
			maxSlug,
		)
	}
	if m.Cage, err = p.Cage.fit(dir, m.Slug, p.Forbidden); err != nil {
		return Made{}, err
	}
	files, err := m.Cage.render(m.Slug)
	if err != nil {
		return Made{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Made{}, fault.Wrap(err, fault.FileIO, "%s cannot be opened.", p.Dir)
	}
	defer root.Close()
	var missing []file
	for _, f := range files {
		switch _, err := root.Lstat(f.path); {
		case f.path == dsl.OverlayFile && (err == nil || slices.Contains(m.Kept, dsl.ProjectFile)):
			// The overlay belongs to the operator, and matches only the project file that it was written with.
			if err == nil {
				m.Kept = append(m.Kept, f.path)
			}
		case err != nil || p.Force:
			missing = append(missing, f)
		case p.Slug != "":
			return Made{}, fault.New(
				fault.FileExists,
				"%s is there already; use --force to replace it, or leave --name out to keep it.",
				f.path,
			)
		default:
			m.Kept = append(m.Kept, f.path)
		}
	}
	for _, f := range missing {
		if err := root.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return m, fault.Wrap(err, fault.FileIO, "%s cannot be made.", filepath.Dir(f.path))
		}
		if err := root.WriteFile(f.path, f.content, 0o644); err != nil {
			return m, fault.Wrap(err, fault.FileIO, "%s cannot be written.", f.path)
		}
		m.Written = append(m.Written, f.path)
	}
	return m, nil
}

type file struct {
	path    string
	content []byte
}

// render returns the files of a project with this cage, the project file first.
func (c Cage) render(slug string) ([]file, error) {
	data := c.view(slug)
	var files []file
	for _, f := range [...]struct{ path, template string }{
		{dsl.ProjectFile, "template/project.yaml"},
		{".kaged/prompts/primary.md", "template/primary.md"},
		{".kaged/.gitignore", "template/gitignore"},
		{dsl.OverlayFile, "template/project.local.yaml"},
	} {
		if f.path == dsl.OverlayFile && !c.local() {
			continue
		}
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

// text matches texts that YAML reads as text without quotes: neither numbers nor reserved words.
var text = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// scalar returns a slug as a YAML value: a folder may have the name 2024, or null.
func scalar(slug string) string {
	switch slug {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(slug)
	}
	if !text.MatchString(slug) {
		return strconv.Quote(slug)
	}
	return slug
}

// maxSlug is the maximum length of an id in a project file.
const maxSlug = 63

// slugOf converts any name to a slug, "project" if no valid character is left.
func slugOf(name string) string {
	s := strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(s) > maxSlug {
		s = strings.Trim(s[:maxSlug], "-")
	}
	if s == "" {
		return "project"
	}
	return s
}
