package projects

import (
	"context"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// Find returns a stored project. An invalid id is treated like any other unknown id.
func (s *Service) Find(ctx context.Context, owner, id string) (Project, error) {
	if !check.Findable(id) {
		return Project{}, NotFound(id)
	}
	return s.Registry.Find(ctx, owner, id)
}

// bindings returns owner's configuration, or nil if it cannot be read, because registered projects are shown
// nevertheless.
func (s *Service) bindings(ctx context.Context, owner string) *localconfig.Config {
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		s.Log.WarnContext(ctx, "the operator's configuration cannot be used", "err", err)
		return nil
	}
	return cfg
}

// List returns a page of owner's projects by id, with their present states. It fails with validation_failed.
func (s *Service) List(ctx context.Context, owner string, limit int32, cursor string) (page.Page[Project], error) {
	req, err := page.Parse(list, limit, cursor)
	if err != nil {
		return page.Page[Project]{}, err
	}
	after := ""
	if req.After != nil {
		after = req.After.S
	}
	rows, err := s.Registry.List(ctx, owner, after, int(req.Fetch()))
	if err != nil {
		return page.Page[Project]{}, err
	}
	p := page.Cut(req, rows, pageKey)
	return p, s.reevaluateAll(ctx, s.bindings(ctx, owner), p.Items)
}

// Details is a project with the targets of its aliases: the first target of each bound alias.
type Details struct {
	Project
	ResolvedAliases map[string]string
}

// Get returns one project, with its present state. It fails with not_found.
func (s *Service) Get(ctx context.Context, owner, id string) (Details, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Details{}, err
	}
	cfg := s.bindings(ctx, owner)
	if err := s.reevaluate(ctx, cfg, &p); err != nil {
		return Details{}, err
	}
	d := Details{Project: p.withConfig(cfg), ResolvedAliases: map[string]string{}}
	for _, a := range p.Aliases {
		if cfg != nil {
			if target, ok := cfg.Binding(a.Name); ok {
				d.ResolvedAliases[a.Name] = target
			}
		}
	}
	return d, nil
}

// Capabilities returns the rights of a project's root agent, under the operator's present rules if they can be read.
// For an invalid project they are those of the last snapshot. It fails with not_found.
func (s *Service) Capabilities(ctx context.Context, owner, id string) (Capabilities, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Capabilities{}, err
	}
	if cfg := s.bindings(ctx, owner); cfg != nil {
		if p, err = s.refresh(ctx, cfg, p); err != nil {
			return Capabilities{}, err
		}
	}
	if p.CompiledHash == "" {
		return Capabilities{}, unapproved()
	}
	snapshot, err := s.Snapshot(ctx, p.CompiledHash)
	if err != nil {
		return Capabilities{}, err
	}
	return snapshot.Capabilities, nil
}

// Known fails with not_found for a project that owner has not registered. It reads only the registry.
func (s *Service) Known(ctx context.Context, owner, id string) error {
	if !check.Findable(id) {
		return NotFound(id)
	}
	return s.Registry.Known(ctx, owner, id)
}

// Runtime is a project for new sessions.
type Runtime struct {
	Project
	// Snapshot is the snapshot of a session created now. The session stores Snapshot.Hash.
	Snapshot *Snapshot
}

// Current returns the inputs of a session created now. It fails with not_found, with local_config_invalid, and with
// project_not_ready (details reason project_not_ready, state, unresolved) if work cannot start.
func (s *Service) Current(ctx context.Context, owner, id string) (Runtime, error) {
	if !check.Findable(id) {
		return Runtime{}, NotFound(id)
	}
	p, err := s.Registry.Row(ctx, owner, id)
	if err != nil {
		return Runtime{}, err
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Runtime{}, err
	}
	if p.CompiledHash == "" {
		return Runtime{}, unapproved()
	}
	if p, err = s.current(ctx, cfg, p); err != nil {
		return Runtime{}, err
	}
	if err := s.reevaluate(ctx, cfg, &p); err != nil {
		return Runtime{}, err
	}
	if p.State != Ready {
		return Runtime{}, notReady(p.State, p.Unresolved)
	}
	snapshot, err := s.Snapshot(ctx, p.CompiledHash)
	return Runtime{Project: p, Snapshot: snapshot}, err
}

// PromptTexts returns the stored texts of prompts by their SHA-256 (hex).
func (s *Service) PromptTexts(ctx context.Context, hashes []string) (map[string]string, error) {
	return s.Contents.PromptTexts(ctx, hashes)
}

// Snapshot returns a snapshot by its hash. It fails with not_found for an unknown hash.
func (s *Service) Snapshot(ctx context.Context, hash string) (*Snapshot, error) {
	if snapshot, ok := s.snapshots.get(hash); ok {
		return snapshot, nil
	}
	compiled, err := s.Contents.Snapshot(ctx, hash)
	if err != nil {
		return nil, err
	}
	project, err := compile.Decode(compiled)
	if err != nil {
		return nil, err
	}
	snapshot := &Snapshot{Hash: hash, Compiled: compiled, Outline: outlineOf(project)}
	s.snapshots.put(hash, snapshot)
	return snapshot, nil
}

// openedEvery is the minimum time between two writes of last_opened_at, so that busy sessions do not queue for their
// project's row.
const openedEvery = int64(60_000)

// MarkOpened records that a session of the project is in use. It is called often and writes at most once a minute. It
// never fails, because no decision depends on it.
func (s *Service) MarkOpened(ctx context.Context, owner, id string) {
	key, at := owner+"\x00"+id, now()
	if last, ok := s.opened.get(key); ok && at-last < openedEvery {
		return
	}
	s.opened.put(key, at)
	if err := s.Registry.Opened(ctx, owner, id, at); err != nil {
		s.Log.WarnContext(ctx, "a project's last use was not noted", "project", id, "err", err)
	}
}
