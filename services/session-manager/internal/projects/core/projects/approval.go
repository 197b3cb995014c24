package projects

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// The origins of an approval.
const (
	ByOperator  = "operator"
	ByFirstLoad = "first_load"
	ByUpgrade   = "upgrade"
)

// Approved is the approval of a project's files.
type Approved struct {
	Hash string
	At   int64
	By   string
}

// Approval is the comparison of a project's files with the approved version.
type Approval struct {
	// Required is true if an operator has to approve the files.
	Required bool
	// ApprovedHash is "" before the first approval, PendingHash if no approval is needed.
	ApprovedHash, PendingHash string
	Widened                   []approval.Widening
	Diff                      string
}

// Approval compares the present files of a project with its approved version. It fails with not_found, dsl_invalid and
// local_config_invalid, and changes no row.
func (s *Service) Approval(ctx context.Context, owner, id string) (Approval, error) {
	_, p, x, err := s.candidate(ctx, owner, id)
	if err != nil {
		return Approval{}, err
	}
	a := Approval{ApprovedHash: p.ApprovedHash, Widened: x.all()}
	if a.Required = p.CompiledHash == "" || len(a.Widened) > 0; a.Required {
		a.PendingHash, a.Diff = x.hash, x.diff()
	}
	return a, nil
}

// candidate reads a registered project's files and compares them with the approved version.
func (s *Service) candidate(ctx context.Context, owner, id string) (*localconfig.Config, Project, candidate, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return nil, p, candidate{}, err
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return nil, p, candidate{}, err
	}
	c, err := s.compileFolder(ctx, p.Workspace, p.Path, cfg.ToolRules())
	if err != nil {
		return nil, p, candidate{}, err
	}
	if c.ID != p.ID {
		return nil, p, candidate{}, Renamed(p.Path, p.ID, c.ID)
	}
	if p, err = s.current(ctx, cfg, p); err != nil {
		return nil, p, candidate{}, err
	}
	x, err := s.compare(ctx, cfg, p, c)
	return cfg, p, x, err
}

// current returns a registered project with an approved version, under the operator's present rules. A project that
// waits for its first approval is returned unchanged.
func (s *Service) current(ctx context.Context, cfg *localconfig.Config, p Project) (Project, error) {
	p, err := s.upgrade(ctx, p)
	if err != nil {
		return p, err
	}
	return s.refresh(ctx, cfg, p)
}

// Approve makes the files with a hash the approved version of a project. It fails with validation_failed without a
// hash, with conflict (details reason approval_changed, hash, widened, diff) if the files have a different hash, and as
// [Service.Reload] does. A repeated approval has no effect.
func (s *Service) Approve(ctx context.Context, owner, id, hash string) (Approved, error) {
	if hash == "" {
		return Approved{}, check.Field("hash", "hash must be that of the files that were shown.")
	}
	for range saveTries {
		cfg, p, x, err := s.candidate(ctx, owner, id)
		if err != nil {
			return Approved{}, err
		}
		switch {
		case p.ApprovedHash == hash:
			return Approved{p.ApprovedHash, p.ApprovedAt, p.ApprovedBy}, nil
		case x.hash != hash:
			return Approved{}, x.conflict(approvalChanged, p.ID)
		}
		saved, _, err := s.approve(ctx, cfg, p, x, ByOperator)
		if errors.Is(err, ErrOvertaken) {
			continue
		}
		crash.At(crash.ProjectApproved)
		return Approved{saved.ApprovedHash, saved.ApprovedAt, saved.ApprovedBy}, err
	}
	return Approved{}, ErrOvertaken
}

// saveTries is the maximum number of times a change is prepared again because another version was approved meanwhile.
const saveTries = 5

// ErrOvertaken is the error if another approval was stored while a change was prepared.
var ErrOvertaken = fault.New(fault.Conflict, "Another version of the project was approved meanwhile; try again.")

// approve stores the files of x as the approved version of p.
func (s *Service) approve(
	ctx context.Context, cfg *localconfig.Config, p Project, x candidate, by string,
) (Project, bool, error) {
	if err := s.storeTexts(ctx, x.texts); err != nil {
		return p, false, err
	}
	crash.At(crash.ApprovedTextsStored)
	was := p.ApprovedHash
	p.ApprovedHash, p.ApprovedAt, p.ApprovedBy, p.AcceptedPrompts = x.hash, now(), by, x.takes
	return s.save(ctx, cfg, p, was, x, map[string]any{"hash": x.hash, "by": by, "widened": widenings(x.all())})
}

// storeTexts stores prompts by their hashes.
func (s *Service) storeTexts(ctx context.Context, texts map[string]string) error {
	if len(texts) == 0 {
		return nil
	}
	byHash := make(map[string]string, len(texts))
	for _, text := range texts {
		byHash[approval.SHA256(text)] = text
	}
	return s.Contents.PutPrompts(ctx, byHash, now())
}

// take makes a compilation the present version of a project, if that needs no approval. It fails with conflict (details
// reason approval_required) if it does, and with [ErrOvertaken].
func (s *Service) take(ctx context.Context, cfg *localconfig.Config, p Project, c compilation) (Project, bool, error) {
	p, err := s.current(ctx, cfg, p)
	if err != nil {
		return p, false, err
	}
	x, err := s.compare(ctx, cfg, p, c)
	if err != nil {
		return p, false, err
	}
	if p.CompiledHash == "" {
		asks := cfg.AsksFirst()
		if !asks {
			asks, err = s.fromCage(ctx, p.Workspace, x)
		}
		switch {
		case err != nil:
			return p, false, err
		case asks:
			return p, false, s.await(ctx, p, x)
		}
		return s.approve(ctx, cfg, p, x, ByFirstLoad)
	}
	if len(x.widened) > 0 {
		return p, false, s.refuse(ctx, cfg, p, x)
	}
	if err := s.storeTexts(ctx, x.texts); err != nil {
		return p, false, err
	}
	was := p.ApprovedHash
	p.ApprovedHash, p.AcceptedPrompts = x.neutral, x.keeps
	return s.save(ctx, cfg, p, was, x, nil)
}

// fromCage reports whether an agent in a cage, of the approved version of any project, can have written a project file
// of x. A file from which that approved version itself was compiled, such as that of a nested project, is already
// approved.
func (s *Service) fromCage(ctx context.Context, workspace string, x candidate) (bool, error) {
	others, err := s.Approvals.Approved(ctx, workspace)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		snapshot, err := s.Snapshot(ctx, other.CompiledHash)
		if err != nil {
			return false, err
		}
		version := approval.Version{Root: other.Root, Agents: snapshot.Agents}
		for _, src := range x.sources {
			file := path.Join(x.root, src.Path)
			if src.Present && isProjectFile(src.Path) && version.CageWrites(file) && !other.compiledFrom(file, src.Content) {
				return true, nil
			}
		}
	}
	return false, nil
}

// compiledFrom reports whether a file with a content is a source of v.
func (v ApprovedVersion) compiledFrom(file string, content []byte) bool {
	return slices.ContainsFunc(v.Sources, func(src dsl.File) bool {
		return src.Present && path.Join(v.Root, src.Path) == file && bytes.Equal(src.Content, content)
	})
}

// await registers a project that waits for its first approval, and returns that conflict.
func (s *Service) await(ctx context.Context, p Project, x candidate) error {
	p.Path, p.Description, p.DSLVersion = x.root, x.Description, x.Version
	p.Diagnostics, p.Warnings = x.Diagnostics, warnings(x.Diagnostics)
	p.Aliases, p.State, p.UpdatedAt = x.Aliases, Pending, now()
	_, _, err := s.Registry.Save(ctx, p, "", nil, func(bool) []audit.Record {
		return []audit.Record{
			record(ctx, p, "project.approval_required", map[string]any{"hash": x.hash, "widened": widenings(x.all())}),
		}
	})
	if err != nil {
		return err
	}
	return x.conflict(approvalRequired, p.ID)
}

// refuse records that files widen the approved version, and returns the conflict. If the project did not compile
// before, its state is that of its approved version.
func (s *Service) refuse(ctx context.Context, cfg *localconfig.Config, p Project, x candidate) error {
	if p.State == Invalid {
		p.State, p.RulesHash = Ready, ""
		if _, err := s.refresh(ctx, cfg, p); err != nil {
			return err
		}
	}
	r := record(ctx, p, "project.approval_required", map[string]any{"hash": x.hash, "widened": widenings(x.all())})
	if err := s.Approvals.Record(ctx, r); err != nil {
		return err
	}
	return x.conflict(approvalRequired, p.ID)
}
