package projects

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/localconfig"
)

func now() int64 { return time.Now().UnixMilli() }

// Load registers the project in folder for owner, or reads one again that is registered from there; it reports whether it
// was not registered before. It fails with validation_failed for a folder that is not absolute, not_found (details.path)
// without a project file, dsl_invalid (details.errors) for one that does not compile, conflict if the id belongs to another
// folder or the folder to another id, and local_config_invalid. A failed first load registers nothing.
func (s *Service) Load(ctx context.Context, owner, folder string) (Project, bool, error) {
	folder, err := cleanPath(folder)
	if err != nil {
		return Project{}, false, err
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Project{}, false, err
	}
	c, err := s.compileFolder(ctx, "", folder, cfg.ToolRules())
	if err != nil {
		return Project{}, false, s.loadFailed(ctx, owner, c, folder, err)
	}
	return s.save(ctx, cfg, Project{Owner: owner, ID: c.ID, RegisteredAt: now()}, c)
}

// loadFailed marks the project that is registered from the folder, if there is one, and returns the failure.
func (s *Service) loadFailed(ctx context.Context, owner string, c compilation, folder string, failure error) error {
	if !isBroken(failure) {
		return failure
	}
	if c.root != "" {
		folder = c.root
	}
	p, err := s.Store.FindByPath(ctx, owner, folder)
	if err != nil || p == nil {
		return failure
	}
	return s.broken(ctx, *p, c, failure)
}

// Reload reads the files of a registered project again. It fails with not_found for one that is not registered and
// otherwise like [Service.Load]; a project file that is gone or does not compile leaves the project registered and
// invalid, while sessions go on with the snapshot they have.
func (s *Service) Reload(ctx context.Context, owner, id string) (Project, error) {
	p, err := s.find(ctx, owner, id)
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
	saved, _, err := s.save(ctx, cfg, p, c)
	return saved, err
}

// Renamed refuses a folder whose project file has another id than the one it is registered under: sessions hang on the id.
func Renamed(folder, existing, incoming string) *fault.Error {
	return fault.New(fault.Conflict, "The folder is registered as project %q and its file now says %q; unregister %q first.", existing, incoming, existing).
		With("existing_id", existing).With("incoming_id", incoming).With("path", folder)
}

// isBroken tells what is wrong with the project from what is wrong around it.
func isBroken(err error) bool {
	return errors.Is(err, fault.DSLInvalid) || errors.Is(err, fault.NotFound)
}

// broken marks a registered project invalid and returns why it is; failing to mark it is told instead.
func (s *Service) broken(ctx context.Context, p Project, c compilation, failure error) error {
	diagnostics := c.Diagnostics
	if !failed(diagnostics) {
		diagnostics = []Diagnostic{{Kind: "project_missing", Message: fault.From(failure).Msg}}
	}
	p.State, p.UpdatedAt = Invalid, now()
	if err := s.Store.Invalidate(ctx, p.Owner, p.ID, diagnostics, p.UpdatedAt, reloaded(ctx, p)); err != nil {
		return err
	}
	return failure
}

// save evaluates what was compiled and stores it.
func (s *Service) save(ctx context.Context, cfg *localconfig.Config, p Project, c compilation) (Project, bool, error) {
	p = p.compiled(c, s.rulesHash(cfg.ToolRules()))
	p.evaluate(cfg, missingPrompts(p.Prompts))
	saved, created, err := s.Store.Save(ctx, p, c.Snapshot, func(created bool) audit.Record {
		if created {
			return record(ctx, p, "project.loaded")
		}
		return reloaded(ctx, p)
	})
	if err != nil {
		return Project{}, false, err
	}
	s.snapshots.put(c.Snapshot.Hash, c.Snapshot)
	return saved, created, nil
}

// compiled returns p with what a compilation found out.
func (p Project) compiled(c compilation, rulesHash string) Project {
	p.Path = c.root
	p.Description, p.DSLVersion = c.Description, c.Version
	p.Diagnostics, p.Warnings = c.Diagnostics, warnings(c.Diagnostics)
	p.Aliases, p.Prompts = c.Aliases, c.promptReferences()
	p.CompiledHash, p.Sources, p.RulesHash = c.Snapshot.Hash, c.sources, rulesHash
	p.UpdatedAt = now()
	return p
}

func reloaded(ctx context.Context, p Project) audit.Record { return record(ctx, p, "project.reloaded") }

func record(ctx context.Context, p Project, eventType string) audit.Record {
	r := audit.New(ctx, eventType, map[string]any{"path": p.Path, "state": string(p.State), "compiled_hash": p.CompiledHash})
	r.UserID, r.ProjectID = p.Owner, p.ID
	return r
}

// refresh makes the snapshot again from the stored sources where the operator's rules or kaged's version are others than it
// was made with. A project that does not compile under them becomes invalid, which is no failure.
func (s *Service) refresh(ctx context.Context, cfg *localconfig.Config, p Project) (Project, error) {
	rules := cfg.ToolRules()
	if p.State == Invalid || p.RulesHash == s.rulesHash(rules) {
		return p, nil
	}
	out, err := s.Compiler.Compile(ctx, CompileInput{Sources: p.Sources, Rules: rules, Workspace: p.Workspace})
	if err != nil {
		return p, err
	}
	if out.Snapshot == nil {
		p.State, p.Diagnostics = Invalid, out.Diagnostics
		if !failed(p.Diagnostics) {
			p.Diagnostics = []Diagnostic{{Kind: "reload_needed", Message: "This version of kaged reads more of the project; reload it."}}
		}
		return p, s.Store.Invalidate(ctx, p.Owner, p.ID, p.Diagnostics, now(), reloaded(ctx, p))
	}
	c := compilation{root: p.Path, sources: p.Sources, hashes: map[string]string{}, CompileOutput: out}
	for _, ref := range p.Prompts {
		c.hashes[ref.Name] = ref.SHA256
	}
	saved, _, err := s.save(ctx, cfg, p, c)
	return saved, err
}
