package projects

import (
	"context"
	"errors"
	"maps"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

func now() int64 { return time.Now().UnixMilli() }

// Load registers the project in folder for owner, or reads a project registered from there again. It reports whether
// the project was not registered before. The first load approves the files unless the operator wants to approve them;
// later files take effect if they do not widen. It fails with conflict (details reason approval_required, project_id,
// hash, widened, diff) for files that need approval, with validation_failed for a folder that is not absolute,
// not_found (details.path) without a project file, dsl_invalid (details.errors) for one that does not compile, conflict
// if the id belongs to another folder or the folder to another id, and local_config_invalid. A failed first load
// registers no project.
func (s *Service) Load(ctx context.Context, owner, folder string) (Project, bool, error) {
	folder, err := s.folder(folder)
	if err != nil {
		return Project{}, false, err
	}
	workspace, err := s.Places.Take(ctx, owner)
	if err != nil {
		return Project{}, false, err
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Project{}, false, err
	}
	c, err := s.compileFolder(ctx, workspace, folder, cfg.ToolRules())
	if err != nil {
		return Project{}, false, s.loadFailed(ctx, owner, c, folder, err)
	}
	for range saveTries {
		p, err := s.registered(ctx, owner, workspace, c)
		if err != nil {
			return Project{}, false, err
		}
		saved, created, err := s.take(ctx, cfg, p, c)
		if !errors.Is(err, ErrOvertaken) {
			return saved.withConfig(cfg), created, err
		}
	}
	return Project{}, false, ErrOvertaken
}

// registered returns the project registered with c's id from c's folder, or a new one.
func (s *Service) registered(ctx context.Context, owner, workspace string, c compilation) (Project, error) {
	p, err := s.Registry.Find(ctx, owner, c.ID)
	if errors.Is(err, fault.NotFound) || err == nil && p.Path != c.root {
		return Project{Owner: owner, ID: c.ID, Path: c.root, Workspace: workspace, RegisteredAt: now()}, nil
	}
	return p, err
}

// loadFailed marks the project that is registered from the folder, if there is one, as invalid, and returns the
// failure.
func (s *Service) loadFailed(ctx context.Context, owner string, c compilation, folder string, failure error) error {
	if !isBroken(failure) {
		return failure
	}
	if c.root != "" {
		folder = c.root
	}
	p, err := s.Registry.FindByPath(ctx, owner, folder)
	if err != nil || p == nil {
		return failure
	}
	return s.broken(ctx, *p, c, failure)
}

// Reload reads the files of a registered project again. It fails with not_found for a project that is not registered
// and otherwise like [Service.Load]. If the project file is missing or does not compile, the project stays registered
// and becomes invalid; sessions continue with their snapshot.
func (s *Service) Reload(ctx context.Context, owner, id string) (Project, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Project{}, err
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Project{}, err
	}
	c, err := s.compileFolder(ctx, p.Workspace, p.Path, cfg.ToolRules())
	if err != nil {
		if isBroken(err) {
			err = s.broken(ctx, p, c, err)
		}
		return Project{}, err
	}
	if c.ID != p.ID {
		return Project{}, Renamed(p.Path, p.ID, c.ID)
	}
	for range saveTries {
		saved, _, err := s.take(ctx, cfg, p, c)
		if !errors.Is(err, ErrOvertaken) {
			return saved.withConfig(cfg), err
		}
		if p, err = s.Find(ctx, owner, id); err != nil {
			return Project{}, err
		}
	}
	return Project{}, ErrOvertaken
}

// Renamed refuses a folder with a project file of another id than the one it is registered with, because sessions refer
// to the id.
func Renamed(folder, existing, incoming string) *fault.Error {
	return fault.New(fault.Conflict, "The folder is registered as project %q and its file now says %q; unregister "+
		"%q first.", existing, incoming, existing).
		With("existing_id", existing).With("incoming_id", incoming).With("path", folder)
}

// isBroken reports whether an error is one of the project itself, not of its environment.
func isBroken(err error) bool {
	return errors.Is(err, fault.DSLInvalid) || errors.Is(err, fault.NotFound)
}

// broken marks a registered project as invalid and returns the reason. If this fails, it returns that error instead.
func (s *Service) broken(ctx context.Context, p Project, c compilation, failure error) error {
	diagnostics := c.Diagnostics
	if !failed(diagnostics) {
		diagnostics = []Diagnostic{{Kind: "project_missing", Message: fault.From(failure).Msg}}
	}
	p.State, p.UpdatedAt = Invalid, now()
	if err := s.Registry.Invalidate(ctx, p.Owner, p.ID, diagnostics, p.UpdatedAt, reloaded(ctx, p)); err != nil {
		return err
	}
	return failure
}

// save evaluates a compilation and stores it, with the record of its approval if that is not nil. If another version
// than was has been approved meanwhile, it fails with [ErrOvertaken].
func (s *Service) save(
	ctx context.Context, cfg *localconfig.Config, p Project, was string, x candidate, approved map[string]any,
) (Project, bool, error) {
	p = p.compiled(x, s.rulesHash(cfg.ToolRules()))
	p.evaluate(cfg, p.missingPrompts())
	saved, created, err := s.Registry.Save(ctx, p, was, x.Snapshot, func(created bool) []audit.Record {
		records := []audit.Record{reloaded(ctx, p)}
		if created {
			records[0] = record(ctx, p, "project.loaded", nil)
		}
		if approved != nil {
			records = append(records, record(ctx, p, "project.approved", approved))
		}
		return records
	})
	if err != nil {
		return Project{}, false, err
	}
	s.snapshots.put(x.Snapshot.Hash, x.Snapshot)
	return saved, created, nil
}

// compiled returns p with the results of a compilation.
func (p Project) compiled(c candidate, rulesHash string) Project {
	p.Path = c.root
	p.Description, p.DSLVersion = c.Description, c.Version
	p.Diagnostics, p.Warnings = c.Diagnostics, warnings(c.Diagnostics)
	p.Aliases, p.Prompts = c.Aliases, c.promptReferences()
	p.CompiledHash, p.Sources, p.RulesHash = c.Snapshot.Hash, c.sources, rulesHash
	p.UpdatedAt = now()
	return p
}

func reloaded(ctx context.Context, p Project) audit.Record {
	return record(ctx, p, "project.reloaded", nil)
}

// record returns a record about p, with the fields of more.
func record(ctx context.Context, p Project, eventType string, more map[string]any) audit.Record {
	payload := map[string]any{
		"path": p.Path, "state": string(p.State), "compiled_hash": p.CompiledHash, "approved_hash": p.ApprovedHash,
	}
	maps.Copy(payload, more)
	r := audit.New(ctx, eventType, payload)
	r.UserID, r.ProjectID = p.Owner, p.ID
	return r
}

// refresh makes the snapshot again from the stored sources if it was made with other rules of the operator or another
// version of kaged. A project that does not compile with the present ones becomes invalid, which is no failure.
func (s *Service) refresh(ctx context.Context, cfg *localconfig.Config, p Project) (Project, error) {
	rules := cfg.ToolRules()
	if p.State == Invalid || p.CompiledHash == "" || p.RulesHash == s.rulesHash(rules) {
		return p, nil
	}
	out, err := s.compile(ctx, p.Workspace, p.Sources, rules)
	if err != nil {
		return p, err
	}
	if out.Snapshot == nil {
		p.State, p.Diagnostics = Invalid, out.Diagnostics
		if !failed(p.Diagnostics) {
			p.Diagnostics = []Diagnostic{
				{Kind: "reload_needed", Message: "This version of kaged reads more of the project; reload it."},
			}
		}
		return p, s.Registry.Invalidate(ctx, p.Owner, p.ID, p.Diagnostics, now(), reloaded(ctx, p))
	}
	x := candidate{
		compilation: compilation{root: p.Path, sources: p.Sources, hashes: map[string]string{}, CompileOutput: out},
	}
	x.version = approval.Version{Root: p.Path, Agents: out.Snapshot.Agents}
	for _, ref := range p.Prompts {
		x.hashes[ref.Name] = ref.SHA256
	}
	saved, _, err := s.save(ctx, cfg, p, p.ApprovedHash, x, nil)
	if errors.Is(err, ErrOvertaken) {
		return s.Registry.Find(ctx, p.Owner, p.ID) // the approval of the other version has compiled it
	}
	return saved, err
}
