package projects

import (
	"context"
	"errors"
	"slices"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// History stores the versions of prompts. [Contents] stores their texts.
type History interface {
	// AddVersion adds a version of a prompt with a stored text, unless the latest version has the same text, and returns
	// the latest version.
	AddVersion(ctx context.Context, owner, project, path string, v PromptVersion) (PromptVersion, error)
	// Version returns a version with its text. It fails with not_found.
	Version(ctx context.Context, owner, project, path string, version int) (PromptVersion, string, error)
	// Versions returns up to limit versions, the newest first.
	Versions(ctx context.Context, owner, project, path string, limit int) ([]PromptVersion, error)
	// Counts returns the number of versions of each prompt of a project, by path.
	Counts(ctx context.Context, owner, project string) (map[string]PromptCount, error)
	// Accept stores the accepted prompts and the approved hash of p with a version of one of them and its record. It fails
	// with [ErrOvertaken] if the approved version is not was.
	Accept(ctx context.Context, p Project, was, path string, v PromptVersion, record audit.Record) (PromptVersion, error)
}

// PromptVersion is a version of a prompt.
type PromptVersion struct {
	// Version counts from 1.
	Version int
	SHA256  string
	// Author is the operator who wrote it through kaged, "" for a change of the file.
	Author    string
	CreatedAt int64
}

// PromptCount is the number of versions of a prompt, with the time of the latest.
type PromptCount struct {
	Versions  int
	UpdatedAt int64
}

// PromptFile is a prompt file of a project.
type PromptFile struct {
	Reference
	PromptCount
	Present bool
}

// PromptText is a version of a prompt with its text.
type PromptText struct {
	Path string
	PromptVersion
	Text string
	// Versions are the latest versions. Diff is the difference between the requested version and the text, nil if none was
	// requested.
	Versions []PromptVersion
	Diff     *string
}

// shownVersions is the maximum number of listed versions.
const shownVersions = 100

// PromptFiles lists the prompts that the project's agents use, by path, in their present state. A new text becomes a
// version. It fails with not_found.
func (s *Service) PromptFiles(ctx context.Context, owner, id string) ([]PromptFile, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	texts, err := s.promptTexts(ctx, p.Workspace, p.Path, p.Prompts)
	if err != nil {
		return nil, err
	}
	for path, text := range texts {
		if _, err := s.seen(ctx, p, path, text); err != nil {
			return nil, err
		}
	}
	counts, err := s.History.Counts(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	list := make([]PromptFile, len(p.Prompts))
	for i, ref := range p.Prompts {
		_, present := texts[ref.Name]
		list[i] = PromptFile{Reference: ref, PromptCount: counts[ref.Name], Present: present}
	}
	return list, nil
}

// seen makes a text of a prompt's file a version, unless it is the latest version.
func (s *Service) seen(ctx context.Context, p Project, path, text string) (PromptVersion, error) {
	sum := approval.SHA256(text)
	if err := s.Contents.PutPrompts(ctx, map[string]string{sum: text}, now()); err != nil {
		return PromptVersion{}, err
	}
	return s.History.AddVersion(ctx, p.Owner, p.ID, path, PromptVersion{SHA256: sum, CreatedAt: now()})
}

// promptOf returns a project and its prompt at a path. It fails with not_found for a prompt that no agent uses.
func (s *Service) promptOf(ctx context.Context, owner, id, path string) (Project, Reference, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return p, Reference{}, err
	}
	named := func(name string) int {
		return slices.IndexFunc(p.Prompts, func(ref Reference) bool { return ref.Name == name })
	}
	i := named(path)
	if i < 0 && "./"+path == dsl.InstructionsPath { // clients remove the dot from a URL
		i = named(dsl.InstructionsPath)
	}
	if i < 0 {
		return p, Reference{}, fault.New(fault.NotFound, "No agent of the project uses the prompt %.200q.", path).
			With("path", path)
	}
	return p, p.Prompts[i], nil
}

// Prompt returns a version of a prompt, for 0 the present file, and for from > 0 the difference from that version. It
// fails with not_found for a missing project, prompt, version or file.
func (s *Service) Prompt(ctx context.Context, owner, id, path string, version, from int) (PromptText, error) {
	p, ref, err := s.promptOf(ctx, owner, id, path)
	if err != nil {
		return PromptText{}, err
	}
	path = ref.Name
	out := PromptText{Path: path}
	if version != 0 {
		out.PromptVersion, out.Text, err = s.History.Version(ctx, owner, id, path, version)
	} else {
		out.PromptVersion, out.Text, err = s.promptNow(ctx, p, ref)
	}
	if err != nil {
		return PromptText{}, err
	}
	if out.Versions, err = s.History.Versions(ctx, owner, id, path, shownVersions); err != nil {
		return PromptText{}, err
	}
	if from != 0 {
		_, before, err := s.History.Version(ctx, owner, id, path, from)
		if err != nil {
			return PromptText{}, err
		}
		diff := promptDiff(path, before, out.Text)
		out.Diff = &diff
	}
	return out, nil
}

// promptNow returns the present file of a prompt, with its version.
func (s *Service) promptNow(ctx context.Context, p Project, ref Reference) (PromptVersion, string, error) {
	texts, err := s.promptTexts(ctx, p.Workspace, p.Path, []Reference{ref})
	if err != nil {
		return PromptVersion{}, "", err
	}
	text, there := texts[ref.Name]
	if !there {
		return PromptVersion{}, "", fault.New(fault.NotFound, "The prompt %s is missing, or is no text file.", ref.Name).
			With("path", ref.Name)
	}
	v, err := s.seen(ctx, p, ref.Name, text)
	return v, text, err
}

func promptDiff(path, before, after string) string {
	return approval.Diff([]approval.Text{{Path: path, Content: before}}, []approval.Text{{Path: path, Content: after}})
}

// PromptWriting is a new text of a prompt.
type PromptWriting struct {
	// Text is nil for a restored version; Restore is its number, or 0.
	Text    *string
	Restore int
	// Match is the SHA-256 in hex of the text to replace, "" for any.
	Match string
}

// PutPrompt writes a prompt's file and makes the text an accepted version, because the operator wrote it. It fails with
// not_found for a prompt that no agent uses, with validation_failed unless exactly one of text and version is set, with
// payload_too_large, with conflict (details reason version_mismatch, sha256) if Match differs, and with file_busy while
// an agent writes the file.
func (s *Service) PutPrompt(ctx context.Context, owner, id, path string, w PromptWriting) (PromptVersion, error) {
	if (w.Text == nil) == (w.Restore == 0) {
		return PromptVersion{}, check.Field("text", "text must be the prompt's text, or restore the number of a version.")
	}
	for range saveTries {
		v, err := s.putPrompt(ctx, owner, id, path, w)
		if !errors.Is(err, ErrOvertaken) {
			return v, err
		}
	}
	return PromptVersion{}, ErrOvertaken
}

func (s *Service) putPrompt(ctx context.Context, owner, id, path string, w PromptWriting) (PromptVersion, error) {
	p, ref, err := s.promptOf(ctx, owner, id, path)
	if err != nil {
		return PromptVersion{}, err
	}
	text := ""
	if w.Text != nil {
		text = *w.Text
	} else if _, text, err = s.History.Version(ctx, owner, id, path, w.Restore); err != nil {
		return PromptVersion{}, err
	}
	if optional(ref.Name) {
		return PromptVersion{}, check.Field("path", "path must name a prompt file; the project's instructions are made of "+
			"several files: edit those, and approve them with `kaged project approve`.")
	}
	if len(text) > dsl.MaxFileSize {
		return PromptVersion{}, fault.New(fault.PayloadTooLarge,
			"The prompt has %d bytes; %d is the most.", len(text), dsl.MaxFileSize).
			With("limit_bytes", dsl.MaxFileSize)
	}
	if !isText([]byte(text)) {
		return PromptVersion{}, check.Field("text", "text must be UTF-8 without NUL.")
	}
	read, err := s.readFiles(ctx, p.Workspace, p.Path, []string{path}, nil)
	if err != nil {
		return PromptVersion{}, err
	}
	before := read.Files[0]
	switch {
	case before.State == Refused:
		return PromptVersion{}, fault.New(fault.Conflict, "The prompt %s cannot be replaced: %s", path, before.Reason).
			With("path", path)
	case w.Match != "" && w.Match != before.SHA256:
		return PromptVersion{}, otherVersion(path, before.SHA256)
	case before.State == Found && isText(before.Content):
		if _, err := s.seen(ctx, p, path, string(before.Content)); err != nil {
			return PromptVersion{}, err
		}
	}
	if before.State != Found || string(before.Content) != text {
		_, err = s.Workspace.WriteProject(ctx, p.Workspace, p.Path, path, []byte(text), before.SHA256)
		if errors.Is(err, fault.FileChangedSinceRead) {
			return PromptVersion{}, ErrOvertaken
		}
		if err != nil {
			return PromptVersion{}, err
		}
	}
	return s.accept(ctx, p, ref, string(before.Content), text)
}

// accept makes a written text the accepted text of a prompt.
func (s *Service) accept(ctx context.Context, p Project, ref Reference, before, text string) (PromptVersion, error) {
	p, err := s.upgrade(ctx, p)
	if err != nil {
		return PromptVersion{}, err
	}
	sum := approval.SHA256(text)
	if err := s.Contents.PutPrompts(ctx, map[string]string{sum: text}, now()); err != nil {
		return PromptVersion{}, err
	}
	was := p.ApprovedHash
	if p.CompiledHash != "" {
		accepted := make(map[string]string, len(p.AcceptedPrompts)+1)
		for path, sha := range p.AcceptedPrompts {
			accepted[path] = sha
		}
		accepted[ref.Name] = sum
		p.AcceptedPrompts = accepted
		if p.ApprovedHash, err = s.approvedHash(ctx, p); err != nil {
			return PromptVersion{}, err
		}
	}
	p.UpdatedAt = now()
	record := record(
		ctx,
		p,
		"prompt.edit",
		map[string]any{"prompt": ref.Name, "sha256": sum, "diff": promptDiff(ref.Name, before, text)},
	)
	v := PromptVersion{SHA256: sum, Author: p.Owner, CreatedAt: p.UpdatedAt}
	return s.History.Accept(ctx, p, was, ref.Name, v, record)
}
