package projects

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Begun is a folder that an agent can refer to.
type Begun struct {
	// Path is the folder, absolute.
	Path string
	// Slug is the project in a new file, made of the folder's name.
	Slug string
	// Created says that the project file is new.
	Created bool
}

// The files of a new agent. An operator that wants another model or prompt changes them.
const (
	subagentPrompt = ".kaged/prompts/default.md"
	subagentText   = "You are a coding agent. Do what your caller asks, and answer with what you did.\n"
	subagentFile   = "version: 1\nproject: %[1]s\ndescription: The agent of %[1]s.\nprimary:\n" +
		"  model: smart-generalist\n  system_prompt: project:/" + subagentPrompt + "\n"
)

// InitSubagent makes a project file and a prompt in a folder of a project. Files that are there stay. It fails with
// not_found, and with validation_failed for a folder that is none of the project's own.
func (s *Service) InitSubagent(ctx context.Context, owner, id, folder string) (Begun, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Begun{}, err
	}
	at := path.Clean(folder)
	if folder == "" || at == "." || !filepath.IsLocal(at) || strings.Contains(at, "\\") || strings.ContainsRune(at, 0) {
		return Begun{}, check.Field("path", "path must be a folder below the project's, such as agents/reviewer.")
	}
	slug := slugOf(path.Base(at))
	if slug == "" {
		return Begun{}, check.Field("path", "path must end in a name with a letter or a digit.")
	}
	made, file := Begun{Path: path.Join(p.Path, at), Slug: slug}, path.Join(at, dsl.ProjectFile)
	read, err := s.readFiles(ctx, p.Workspace, p.Path, []string{file}, nil)
	switch {
	case err != nil:
		return Begun{}, err
	case read.Files[0].State == Found:
		return made, nil
	case read.Files[0].State == Refused:
		return Begun{}, notAFolder(read.Files[0].Reason)
	}
	// The project file comes last: a folder that has one is complete.
	if _, err := s.begin(ctx, p, path.Join(at, subagentPrompt), subagentText); err != nil {
		return Begun{}, err
	}
	made.Created, err = s.begin(ctx, p, file, fmt.Sprintf(subagentFile, slug))
	if err != nil {
		return Begun{}, err
	}
	return made, nil
}

func notAFolder(reason string) *fault.Error {
	return check.Field("path", "path must lead to a folder of the project without links: %s", reason)
}

// begin writes a file unless there is one, and reports whether it did.
func (s *Service) begin(ctx context.Context, p Project, name, text string) (created bool, err error) {
	_, err = s.Workspace.WriteProject(ctx, p.Workspace, p.Path, name, []byte(text), "")
	switch {
	case errors.Is(err, fault.FileChangedSinceRead):
		return false, nil
	case errors.Is(err, fault.InvalidParams), errors.Is(err, fault.CapabilityDenied):
		return false, notAFolder(fault.From(err).Msg)
	}
	return err == nil, err
}

// slugOf makes a slug of a folder's name, "" of one without a letter or digit.
func slugOf(name string) string {
	slug := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(slug[:min(len(slug), 63)], "-")
}
