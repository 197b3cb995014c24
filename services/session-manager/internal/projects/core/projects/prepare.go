package projects

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// Pin is a session's reference to its project.
type Pin struct {
	Owner, ProjectID string
	// Root is the project's folder at the session's creation.
	Root      string
	Workspace string
	// CompiledHash identifies the snapshot.
	CompiledHash string
	// ModelOverride is the "provider:model" in place of the root agent's alias, or "".
	ModelOverride string
	// KnownPrompts are the SHA-256 (hex) of the prompts of the session's previous run, by path.
	KnownPrompts map[string]string
}

// Inputs are the inputs of a pinned session's run, for one message.
type Inputs struct {
	Snapshot *Snapshot
	// Config is the operator's present configuration: rules for tools, limits, and the revision of the routes.
	Config *localconfig.Config
	// Prompts and PromptHashes are the prompts' texts and SHA-256 (hex) by their path in the snapshot. The texts can be
	// read again by their hash, even after changes of the files.
	Prompts, PromptHashes map[string]string
	// HeldPrompts are prompts with changed files that agents can write, and instructions that differ from the accepted
	// ones: the run uses the accepted texts.
	HeldPrompts []HeldPrompt
	// ChangedPrompts are the paths of texts that differ from those of the session's previous run, sorted.
	ChangedPrompts []string
	// Routes are the targets of calls, by alias.
	Routes map[string]contract.Route
	// override is the pin's ModelOverride.
	override string
}

// Same reports whether other are the same inputs.
func (in *Inputs) Same(other *Inputs) bool {
	return in.Snapshot.Hash == other.Snapshot.Hash && in.Config.Revision() == other.Config.Revision() &&
		in.override == other.override && maps.Equal(in.PromptHashes, other.PromptHashes) &&
		slices.Equal(in.HeldPrompts, other.HeldPrompts) && slices.Equal(in.ChangedPrompts, other.ChangedPrompts)
}

// Of reports whether the inputs may be those of the next run of a pinned session: they are of the same snapshot and
// model, and no prompt has changed since the run before.
func (in *Inputs) Of(pin Pin) bool {
	return in.Snapshot.Hash == pin.CompiledHash && in.override == pin.ModelOverride && len(in.ChangedPrompts) == 0 &&
		maps.Equal(in.PromptHashes, pin.KnownPrompts)
}

// HeldPrompt is a prompt with a file that differs from the accepted text.
type HeldPrompt struct {
	Path string
	// Accepted and Found are the SHA-256 (hex) of both, "" for a missing text.
	Accepted, Found string
}

// Prepare collects a run's inputs at a message: the present prompts and bindings, and the session's snapshot. Of a
// prompt that agents can write it uses the accepted text. It fails with local_config_invalid, with project_not_ready
// (details reason project_not_ready, state, unresolved) if an alias is not bound or a prompt is missing, and with
// unavailable if the workspace cannot be reached.
func (s *Service) Prepare(ctx context.Context, pin Pin) (Inputs, error) {
	cfg, err := s.Config.Config(ctx, pin.Owner)
	if err != nil {
		return Inputs{}, err
	}
	snapshot, err := s.Snapshot(ctx, pin.CompiledHash)
	if err != nil {
		return Inputs{}, err
	}
	// The workspace reads the files while the database reads the approved version.
	var reading sync.WaitGroup
	var approved Accepted
	var unread error
	if len(snapshot.Prompts) > 0 {
		reading.Go(func() { approved, unread = s.accepted(ctx, pin) })
	}
	prompts, missing, err := s.readPrompts(ctx, pin, snapshot.Prompts)
	reading.Wait()
	if err != nil {
		return Inputs{}, err
	}
	if len(prompts) > 0 && unread != nil {
		return Inputs{}, unread
	}
	prompts, held, unaccepted, err := s.hold(ctx, pin, snapshot, prompts, approved)
	if err != nil {
		return Inputs{}, err
	}
	missing = append(missing, unaccepted...)
	if u := (Unresolved{Aliases: unbound(cfg, snapshot.Aliases), Prompts: missing}); !u.Empty() {
		return Inputs{}, notReady(Pending, u)
	}
	routes, err := Routes(cfg, snapshot, pin.ModelOverride)
	if err != nil {
		return Inputs{}, err
	}
	in := Inputs{
		Snapshot: snapshot, Config: cfg, Routes: routes, Prompts: map[string]string{}, PromptHashes: map[string]string{},
		HeldPrompts: held, override: pin.ModelOverride,
	}
	for path, p := range prompts {
		in.Prompts[path], in.PromptHashes[path] = p.text, p.sha256
		if was := pin.KnownPrompts[path]; was != "" && was != p.sha256 {
			in.ChangedPrompts = append(in.ChangedPrompts, path)
		}
	}
	slices.Sort(in.ChangedPrompts)
	return in, nil
}

// Stored returns the inputs of a run that need no workspace: the snapshot and the operator's configuration.
func (s *Service) Stored(ctx context.Context, owner, hash string) (Inputs, error) {
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Inputs{}, err
	}
	snapshot, err := s.Snapshot(ctx, hash)
	return Inputs{Snapshot: snapshot, Config: cfg}, err
}

// Routes returns the targets of the calls of a snapshot's agents, by alias. A session's override applies to the calls
// of the root agent, but not to those of other agents with its alias. Routes fails with model_alias_not_found if an
// alias is no longer bound.
func Routes(cfg *localconfig.Config, snapshot *Snapshot, override string) (map[string]contract.Route, error) {
	routes := make(map[string]contract.Route, len(snapshot.Aliases))
	if override != "" {
		routes[contract.RootRoute] = cfg.RouteTo(override)
	}
	for _, alias := range snapshot.Aliases {
		route, err := cfg.Route(alias.Name)
		if err != nil && override != "" && alias.Name == snapshot.RootModel {
			continue
		}
		if err != nil {
			return nil, err
		}
		routes[alias.Name] = route
	}
	return routes, nil
}

// readPrompts returns the texts of prompts, and those that are missing or cannot be used. It stores new texts first, so
// that a hash can always be resolved to its text.
func (s *Service) readPrompts(ctx context.Context, pin Pin, refs []Reference) (map[string]prompt, []Reference, error) {
	if len(refs) == 0 {
		return nil, nil, nil
	}
	paths := make([]string, len(refs))
	cached := make(map[string]prompt, len(refs))
	known := make(map[string]string, len(refs))
	for i, ref := range refs {
		paths[i] = ref.Name
		if p, ok := s.prompts.get(promptKey{pin.Workspace, pin.Root, ref.Name}); ok {
			cached[ref.Name], known[ref.Name] = p, p.sha256
		}
	}
	read, err := s.readFiles(ctx, pin.Workspace, pin.Root, paths, known)
	if errors.Is(err, fault.NotFound) {
		return nil, refs, nil
	}
	if err != nil {
		return nil, nil, err
	}
	prompts := make(map[string]prompt, len(refs))
	fresh := map[string]string{}
	var missing []Reference
	for i, f := range read.Files {
		switch {
		case f.State == Unchanged:
			prompts[f.Path] = cached[f.Path]
		case f.State == Found && isText(f.Content):
			prompts[f.Path] = prompt{string(f.Content), f.SHA256}
			fresh[f.SHA256] = string(f.Content)
		case !optional(f.Path):
			missing = append(missing, refs[i])
		}
	}
	texts := make(map[string]string, len(prompts))
	for path, p := range prompts {
		texts[path] = p.text
	}
	if err := s.Bounds.check(texts); err != nil {
		return nil, nil, err
	}
	return prompts, missing, s.keepPrompts(ctx, pin, prompts, fresh)
}

// optional reports whether a prompt may be missing: the project's instructions. Their text consists of several files,
// some outside the project, so it always counts as one that agents can write.
func optional(path string) bool { return path == dsl.InstructionsPath }

// hold replaces the prompts that agents can write, in the session's version or in the project's, by their accepted
// texts. It returns the replaced ones, and those without an accepted text.
func (s *Service) hold(
	ctx context.Context, pin Pin, snapshot *Snapshot, prompts map[string]prompt, accepted Accepted,
) (map[string]prompt, []HeldPrompt, []Reference, error) {
	if len(prompts) == 0 {
		return prompts, nil, nil, nil
	}
	now, err := s.Snapshot(ctx, accepted.CompiledHash)
	if err != nil {
		return nil, nil, nil, err
	}
	versions := []approval.Version{{Root: pin.Root, Agents: snapshot.Agents}, {Root: pin.Root, Agents: now.Agents}}
	var held []HeldPrompt
	var unaccepted []Reference
	var hashes []string
	for _, ref := range snapshot.Prompts {
		p, there := prompts[ref.Name]
		sha := accepted.Prompts[ref.Name]
		if optional(ref.Name) {
			if sha == acceptedAbsent {
				sha = ""
			}
			if sha != p.sha256 {
				held = append(held, HeldPrompt{Path: ref.Name, Accepted: sha, Found: p.sha256})
			}
			if sha != "" && sha != p.sha256 {
				hashes = append(hashes, sha)
			}
			continue
		}
		switch {
		case !there, sha == p.sha256, !versions[0].Writable(ref.Name) && !versions[1].Writable(ref.Name):
		case sha == "", sha == acceptedAbsent:
			unaccepted = append(unaccepted, ref)
		default:
			held = append(held, HeldPrompt{Path: ref.Name, Accepted: sha, Found: p.sha256})
			hashes = append(hashes, sha)
		}
	}
	if len(held) == 0 {
		return prompts, nil, unaccepted, nil
	}
	texts, err := s.Contents.PromptTexts(ctx, hashes)
	if err != nil {
		return nil, nil, nil, err
	}
	prompts = maps.Clone(prompts)
	for _, h := range held {
		if h.Accepted == "" {
			delete(prompts, h.Path)
			continue
		}
		text, kept := texts[h.Accepted]
		if !kept {
			return nil, nil, nil, fault.New(fault.Internal, "The accepted text of %s is not kept.", h.Path)
		}
		prompts[h.Path] = prompt{text, h.Accepted}
	}
	return prompts, held, unaccepted, nil
}

// accepted returns the approved version of a session's project. A project from a version of kaged without approvals is
// approved now.
func (s *Service) accepted(ctx context.Context, pin Pin) (Accepted, error) {
	a, err := s.Approvals.Accepted(ctx, pin.Owner, pin.ProjectID)
	if err != nil || a.ApprovedHash != "" {
		return a, err
	}
	p, err := s.Find(ctx, pin.Owner, pin.ProjectID)
	if err == nil {
		p, err = s.upgrade(ctx, p)
	}
	return Accepted{p.ApprovedHash, p.CompiledHash, p.AcceptedPrompts}, err
}

// check fails with payload_too_large for prompts that are too large for a run.
func (b Bounds) check(prompts map[string]string) error {
	size := 0
	for _, text := range prompts {
		size += len(text)
	}
	if size > b.Prompts {
		return fault.New(fault.PayloadTooLarge, "The project's prompts have %d bytes together; %d is the most.", size,
			b.Prompts).
			With("limit_bytes", b.Prompts)
	}
	return nil
}

// keepPrompts stores new texts, and then adds all texts to the cache.
func (s *Service) keepPrompts(ctx context.Context, pin Pin, prompts map[string]prompt, fresh map[string]string) error {
	if len(fresh) > 0 {
		if err := s.Contents.PutPrompts(ctx, maps.Clone(fresh), now()); err != nil {
			return err
		}
	}
	for path, p := range prompts {
		if _, ok := fresh[p.sha256]; !ok {
			continue
		}
		v := PromptVersion{SHA256: p.sha256, CreatedAt: now()}
		if _, err := s.History.AddVersion(ctx, pin.Owner, pin.ProjectID, path, v); err != nil {
			// The run needs only the text; the next reader of the prompt adds the version.
			s.Log.WarnContext(ctx, "a version of a prompt was not noted", "project", pin.ProjectID, "path", path, "err", err)
		}
		s.prompts.put(promptKey{pin.Workspace, pin.Root, path}, p)
	}
	return nil
}
