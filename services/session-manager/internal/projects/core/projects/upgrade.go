package projects

import (
	"context"
	"errors"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// upgrade approves the version of a project that a kaged without approvals has registered, with its present prompts.
func (s *Service) upgrade(ctx context.Context, p Project) (Project, error) {
	if p.ApprovedHash != "" || p.CompiledHash == "" {
		return p, nil
	}
	snapshot, err := s.Snapshot(ctx, p.CompiledHash)
	if err != nil {
		return p, err
	}
	texts, err := s.promptTexts(ctx, p.Workspace, p.Path, snapshot.Prompts)
	if err == nil {
		err = s.storeTexts(ctx, texts)
	}
	if err != nil {
		return p, err
	}
	p.AcceptedPrompts = map[string]string{}
	for _, ref := range snapshot.Prompts {
		p.AcceptedPrompts[ref.Name] = acceptedAbsent
	}
	for path, text := range texts {
		p.AcceptedPrompts[path] = approval.SHA256(text)
	}
	if p.ApprovedHash, err = s.approvedHash(ctx, p); err != nil {
		return p, err
	}
	p.ApprovedAt, p.ApprovedBy = now(), ByUpgrade
	r := record(ctx, p, "project.approved", map[string]any{"hash": p.ApprovedHash, "by": ByUpgrade})
	if err := s.Approvals.Upgrade(ctx, p, r); err != nil {
		return p, err
	}
	return s.Registry.Find(ctx, p.Owner, p.ID)
}

// approvedHash returns the hash of the approved version of p: its project files, and the accepted texts of the prompts
// that agents can write.
func (s *Service) approvedHash(ctx context.Context, p Project) (string, error) {
	snapshot, err := s.Snapshot(ctx, p.CompiledHash)
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for _, src := range p.Sources {
		if isProjectFile(src.Path) {
			files[src.Path] = ""
			if src.Present {
				files[src.Path] = approval.SHA256(string(src.Content))
			}
		}
	}
	version := approval.Version{Root: p.Path, Agents: snapshot.Agents}
	for path, sha := range p.AcceptedPrompts {
		if (optional(path) || version.Writable(path)) && sha != acceptedAbsent {
			files[path] = sha
		}
	}
	return approval.Hash(files), nil
}

// promptTexts returns the texts of the existing prompts, by path.
func (s *Service) promptTexts(
	ctx context.Context, workspace, root string, refs []Reference,
) (map[string]string, error) {
	texts := map[string]string{}
	if len(refs) == 0 {
		return texts, nil
	}
	paths := make([]string, len(refs))
	for i, ref := range refs {
		paths[i] = ref.Name
	}
	read, err := s.readFiles(ctx, workspace, root, paths, nil)
	if errors.Is(err, fault.NotFound) {
		return texts, nil
	}
	for _, f := range read.Files {
		if f.State == Found && isText(f.Content) {
			texts[f.Path] = string(f.Content)
		}
	}
	return texts, err
}
