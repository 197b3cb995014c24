package projects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// maxRounds is the maximum number of rounds of one compilation. References nest up to 16 deep, and each level may need
// an overlay and prompts.
const maxRounds = 64

// readBatch is the number of files that are read at once: so many of the maximum size fit into one message.
const readBatch = 8

// compilation is a compiled project and its files.
type compilation struct {
	// root is the project's folder with all links resolved, "" if no file could be read.
	root    string
	sources []dsl.File
	// hashes and texts are those of the existing prompts, by path.
	hashes, texts map[string]string
	// given is a text in place of the project file, or nil. was is the SHA-256 in hex of the file, "" if it is missing.
	given *string
	was   string
	CompileOutput
}

// compileWith compiles a project as if its project file had a different text. It fails as compileFolder does, but not
// if the project file is missing.
func (s *Service) compileWith(
	ctx context.Context, p Project, rules []catalogue.Switch, text string,
) (compilation, error) {
	return s.compileOn(ctx, compilation{given: &text}, p.Workspace, p.Path, rules)
}

// compileFolder reads and compiles the project in folder. It fails with not_found (details.path is folder) if it has no
// project file, and with dsl_invalid (details.errors) if the project does not compile; the compilation then has the
// known parts.
func (s *Service) compileFolder(
	ctx context.Context, workspace, folder string, rules []catalogue.Switch,
) (compilation, error) {
	return s.compileOn(ctx, compilation{}, workspace, folder, rules)
}

func (s *Service) compileOn(
	ctx context.Context, c compilation, workspace, folder string, rules []catalogue.Switch,
) (compilation, error) {
	c.hashes, c.texts = map[string]string{}, map[string]string{}
	wanted := []string{dsl.ProjectFile, dsl.OverlayFile}
	for range maxRounds {
		if len(c.sources)+len(wanted) > s.Bounds.Files {
			return c.refuse(fmt.Sprintf("The project has more than %d files to read.", s.Bounds.Files))
		}
		if err := s.readSources(ctx, &c, workspace, folder, wanted); err != nil {
			return c, err
		}
		out, err := s.compile(ctx, workspace, c.sources, rules)
		if err != nil {
			return c, err
		}
		c.CompileOutput = out
		// If files are missing besides the errors, they may contain further errors, and the operator should get all errors.
		if wanted = c.unread(out.Wanted); len(wanted) > 0 {
			continue
		}
		switch {
		case failed(out.Diagnostics):
			return c, dslInvalid(out.Diagnostics)
		case out.Snapshot != nil:
			return c, nil
		}
		return c, fault.New(fault.Internal, "The compiler neither finished nor wants another file.")
	}
	return c.refuse(fmt.Sprintf("The project's files refer to each other more than %d deep.", maxRounds))
}

// refuse returns c with an error about the whole project, and that error.
func (c compilation) refuse(reason string) (compilation, error) {
	c.Diagnostics = []Diagnostic{{Kind: "project_too_large", Message: reason, File: dsl.ProjectFile}}
	return c, dslInvalid(c.Diagnostics)
}

func failed(diagnostics []Diagnostic) bool {
	for _, d := range diagnostics {
		if !d.Warning {
			return true
		}
	}
	return false
}

// unread returns those of paths that the compiler has not got yet.
func (c *compilation) unread(paths []string) []string {
	have := make(map[string]bool, len(c.sources))
	for _, s := range c.sources {
		have[s.Path] = true
	}
	var rest []string
	for _, p := range paths {
		if !have[p] {
			have[p] = true
			rest = append(rest, p)
		}
	}
	return rest
}

// readSources adds files to c's sources. The project file itself must exist.
func (s *Service) readSources(ctx context.Context, c *compilation, workspace, folder string, paths []string) error {
	read, err := s.readFiles(ctx, workspace, folder, paths, nil)
	if errors.Is(err, fault.NotFound) {
		return noProject(folder).With("missing", "folder")
	}
	if err != nil {
		return err
	}
	c.root = read.Root
	for _, f := range read.Files {
		source := dsl.File{Path: f.Path, Present: f.State == Found, Reason: f.Reason}
		switch {
		case f.Path == dsl.ProjectFile && c.given != nil:
			c.was = f.SHA256
			source.Present, source.Reason, source.Content = true, "", []byte(*c.given)
		case f.State == Missing && f.Path == dsl.ProjectFile:
			return noProject(folder)
		case isProjectFile(f.Path):
			source.Content = f.Content
		case f.State == Found && !isText(f.Content):
			source.Present, source.Reason = false, "it is not a text file"
		case f.State == Found:
			c.hashes[f.Path], c.texts[f.Path] = f.SHA256, string(f.Content)
		}
		c.sources = append(c.sources, source)
	}
	return s.Bounds.check(c.texts)
}

// isProjectFile distinguishes the files that the compiler reads from prompts, of which it only needs the existence.
func isProjectFile(p string) bool {
	return p == dsl.LaunchFile || p == dsl.ProjectFile || p == dsl.OverlayFile ||
		strings.HasSuffix(p, "/"+dsl.ProjectFile) || strings.HasSuffix(p, "/"+dsl.OverlayFile)
}

func noProject(folder string) *fault.Error {
	return fault.New(fault.NotFound, ".kaged/project.yaml not found at the given path.").With("path", folder)
}

// readFiles reads any number of files in batches.
func (s *Service) readFiles(
	ctx context.Context, workspace, root string, paths []string, known map[string]string,
) (Folder, error) {
	var all Folder
	for start := 0; start == 0 || start < len(paths); start += readBatch {
		batch := paths[start:min(start+readBatch, len(paths))]
		read, err := s.Workspace.ReadProject(ctx, workspace, root, batch, known)
		if err != nil {
			return Folder{}, err
		}
		if len(read.Files) != len(batch) {
			return Folder{}, fault.New(fault.Internal, "The workspace answered for %d files of %d.", len(read.Files), len(batch))
		}
		all.Root = read.Root
		all.Files = append(all.Files, read.Files...)
	}
	return all, nil
}

// promptReferences returns the prompts in use with their hashes at the time of reading.
func (x *candidate) promptReferences() []Reference {
	refs := make([]Reference, len(x.Prompts))
	for i, p := range x.Prompts {
		refs[i] = p
		refs[i].SHA256, refs[i].Writable = x.hashes[p.Name], x.version.Writable(p.Name)
	}
	return refs
}

// rulesHash identifies the inputs of a snapshot other than the project's files.
func (s *Service) rulesHash(rules []catalogue.Switch) string {
	// Strings and booleans can always be marshalled.
	text, _ := json.Marshal(struct {
		Build string
		Rules []catalogue.Switch
	}{s.Build, rules})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
