package projects

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// evaluators is the number of projects of a page that are evaluated in parallel.
const evaluators = 8

// evaluate determines p's state from the bindings of its aliases and the missing prompts. Without a readable
// configuration, no alias is bound. An invalid project is not evaluated; it stays invalid until it is reloaded.
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

// missingPrompts returns the prompts that had no content when they were read, or that need an accepted text and have
// none.
func (p *Project) missingPrompts() []Reference {
	var list []Reference
	for _, ref := range p.Prompts {
		if !optional(ref.Name) && (ref.SHA256 == "" || p.unaccepted(ref)) {
			list = append(list, ref)
		}
	}
	return list
}

// unaccepted reports whether a prompt needs an accepted text and has none.
func (p *Project) unaccepted(ref Reference) bool {
	sha := p.AcceptedPrompts[ref.Name]
	return ref.Writable && (sha == "" || sha == acceptedAbsent)
}

// reevaluate determines p's present state and stores a changed one. If the workspace cannot be reached, the prompts
// count as unchanged.
func (s *Service) reevaluate(ctx context.Context, cfg *localconfig.Config, p *Project) error {
	if p.State == Invalid || p.CompiledHash == "" {
		return nil
	}
	before := *p
	missing, err := s.lookForPrompts(ctx, *p)
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
	return s.Registry.Evaluated(ctx, *p)
}

// lookForPrompts returns the prompts that are missing or cannot be used. Unchanged files are not transferred.
func (s *Service) lookForPrompts(ctx context.Context, p Project) ([]Reference, error) {
	prompts := p.Prompts
	if len(prompts) == 0 {
		return nil, nil
	}
	paths := make([]string, len(prompts))
	known := make(map[string]string, len(prompts))
	for i, ref := range prompts {
		paths[i] = ref.Name
		if ref.SHA256 != "" {
			known[ref.Name] = ref.SHA256
		}
	}
	read, err := s.readFiles(ctx, p.Workspace, p.Path, paths, known)
	if errors.Is(err, fault.NotFound) {
		return prompts, nil // the folder was removed with its prompts
	}
	if err != nil {
		return nil, err
	}
	var missing []Reference
	for i, f := range read.Files {
		there := f.State == Unchanged || f.State == Found && isText(f.Content)
		if optional(f.Path) || there && !p.unaccepted(prompts[i]) {
			continue
		}
		missing = append(missing, prompts[i])
	}
	return missing, nil
}

// reevaluateAll evaluates a page of projects, several in parallel.
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
