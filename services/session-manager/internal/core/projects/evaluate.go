package projects

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/localconfig"
)

// evaluators is how many projects of a page are evaluated side by side.
const evaluators = 8

// evaluate finds out p's state from the bindings of its aliases and the prompts that are missing. Without a configuration,
// because it cannot be read, nothing is bound. An invalid project is not evaluated: it stays so until it is reloaded.
func (p *Project) evaluate(cfg *localconfig.Config, missing []Reference) {
	p.Unresolved = Unresolved{Aliases: unbound(cfg, p.Aliases), Prompts: missing}
	p.State = Ready
	if !p.Unresolved.Empty() {
		p.State = Pending
	}
}

func unbound(cfg *localconfig.Config, aliases []Reference) []Reference {
	var list []Reference
	for _, a := range aliases {
		if cfg != nil {
			if _, ok := cfg.Binding(a.Name); ok {
				continue
			}
		}
		list = append(list, a)
	}
	return list
}

// missingPrompts returns those references that had no content when they were read.
func missingPrompts(prompts []Reference) []Reference {
	var list []Reference
	for _, p := range prompts {
		if p.SHA256 == "" {
			list = append(list, p)
		}
	}
	return list
}

// reevaluate finds out p's state as of now and stores it if it is another. While the workspace cannot be asked, the prompts
// are taken to be as they were.
func (s *Service) reevaluate(ctx context.Context, cfg *localconfig.Config, p *Project) error {
	if p.State == Invalid {
		return nil
	}
	before := *p
	missing, err := s.lookForPrompts(ctx, p.Workspace, p.Path, p.Prompts)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.Log.WarnContext(ctx, "a project's prompts cannot be looked at", "project", p.ID, "err", err)
		missing = p.Unresolved.Prompts
	}
	p.evaluate(cfg, missing)
	if p.State == before.State && reflect.DeepEqual(p.Unresolved, before.Unresolved) {
		return nil
	}
	return s.Store.Evaluated(ctx, *p)
}

// lookForPrompts returns the prompts that are not there or cannot be used. What is unchanged is not transferred.
func (s *Service) lookForPrompts(ctx context.Context, workspace, root string, prompts []Reference) ([]Reference, error) {
	if len(prompts) == 0 {
		return nil, nil
	}
	paths := make([]string, len(prompts))
	known := make(map[string]string, len(prompts))
	for i, p := range prompts {
		paths[i] = p.Name
		if p.SHA256 != "" {
			known[p.Name] = p.SHA256
		}
	}
	read, err := s.readFiles(ctx, workspace, root, paths, known)
	if errors.Is(err, fault.NotFound) {
		return prompts, nil // the folder is gone, and its prompts with it
	}
	if err != nil {
		return nil, err
	}
	var missing []Reference
	for i, f := range read.Files {
		if f.State == Unchanged || f.State == Found && isText(f.Content) {
			continue
		}
		missing = append(missing, prompts[i])
	}
	return missing, nil
}

// reevaluateAll evaluates a page of projects, several side by side.
func (s *Service) reevaluateAll(ctx context.Context, cfg *localconfig.Config, page []Project) error {
	var wg sync.WaitGroup
	errs := make([]error, len(page))
	slots := make(chan struct{}, evaluators)
	for i := range page {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = s.reevaluate(ctx, cfg, &page[i])
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
