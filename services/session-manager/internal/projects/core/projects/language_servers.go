package projects

import (
	"cmp"
	"context"
	"slices"

	"kaged.dev/pkg/contract"
)

// projectPage is the number of projects that are read at once.
const projectPage = 200

// LanguageServers returns the language servers of a project of owner, or of all projects if id is empty, the oldest
// first. It fails with not_found, and with unavailable if a workspace cannot be reached.
func (s *Service) LanguageServers(ctx context.Context, owner, id string) ([]contract.RunningLanguageServer, error) {
	if id != "" {
		p, err := s.Find(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		return s.Workspace.LanguageServers(ctx, p.Workspace, p.ID, p.Path)
	}
	type place struct{ id, root string }
	mine := map[string]map[place]bool{}
	for after := ""; ; {
		page, err := s.Registry.List(ctx, owner, after, projectPage)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if mine[p.Workspace] == nil {
				mine[p.Workspace] = map[place]bool{}
			}
			mine[p.Workspace][place{p.ID, p.Path}] = true
			after = p.ID
		}
		if len(page) < projectPage {
			break
		}
	}
	var all []contract.RunningLanguageServer
	for workspace, places := range mine {
		list, err := s.Workspace.LanguageServers(ctx, workspace, "", "")
		if err != nil {
			return nil, err
		}
		for _, server := range list {
			if places[place{server.ProjectID, server.Root}] {
				all = append(all, server)
			}
		}
	}
	slices.SortFunc(all, func(a, b contract.RunningLanguageServer) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// RestartLanguageServers ends the language servers of a project, of one language or, for "", of all; they start again
// with the next query. It fails as [Service.LanguageServers] does.
func (s *Service) RestartLanguageServers(
	ctx context.Context, owner, id, lang string,
) ([]contract.RunningLanguageServer, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	list, err := s.Workspace.StopLanguageServers(ctx, p.Workspace, p.ID, p.Path, lang)
	if err != nil {
		return nil, err
	}
	r := record(ctx, p, "code.lsp.restarted", map[string]any{"lang": lang, "servers": len(list)})
	return list, s.Approvals.Record(ctx, r)
}
