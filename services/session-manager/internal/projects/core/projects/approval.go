package projects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// Origins of an approval.
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

// Approval holds a project's files against the approved version.
type Approval struct {
	// Required says whether an operator has to approve the files.
	Required bool
	// ApprovedHash is "" before the first approval, PendingHash if no approval is needed.
	ApprovedHash, PendingHash string
	Widened                   []approval.Widening
	Diff                      string
}

// candidate is the difference of a compilation to the approved version of a project.
type candidate struct {
	compilation
	version approval.Version
	// hash is of the files as they are.
	hash string
	// widened needs approval before the files count; held are prompts with an accepted text that stays until then.
	widened, held []approval.Widening
	// keeps and takes are the hashes of the accepted prompts by path: as they are without an approval of these
	// files, and with one.
	keeps, takes map[string]string
	// neutral is the hash of the files with the prompts that are kept.
	neutral string
	// was are the hashes of the accepted prompts, writable says which prompts agents can write in either version.
	was      map[string]string
	writable map[string]bool
	// from are the texts of the approved version.
	from []approval.Text
}

// compare compares c with the approved version of p, after an update of its snapshot if it compiles.
func (s *Service) compare(ctx context.Context, cfg *localconfig.Config, p Project, c compilation) (candidate, error) {
	x := candidate{compilation: c, keeps: maps.Clone(p.AcceptedPrompts), takes: maps.Clone(p.AcceptedPrompts)}
	x.was, x.writable = p.AcceptedPrompts, map[string]bool{}
	if x.keeps == nil {
		x.keeps, x.takes = map[string]string{}, map[string]string{}
	}
	steps := cfg.Limits().MaxSteps
	if steps == 0 {
		steps = defaultSteps
	}
	x.version = approval.Version{
		Root: c.root, Agents: c.Snapshot.Agents, Dormant: dormantIn(c.sources), DefaultSteps: steps,
		Providers: map[string][]string{},
	}
	x.version.LanguageServers, x.version.Debugging = c.Snapshot.LanguageServers, c.Snapshot.Debugging
	for _, a := range x.version.Agents {
		x.version.Providers[a.Model] = providers(cfg, a.Model)
	}
	before := approval.Version{Root: c.root, Dormant: map[approval.Place]string{}, DefaultSteps: steps}
	if p.CompiledHash != "" {
		snapshot, err := s.Snapshot(ctx, p.CompiledHash)
		if err != nil {
			return x, err
		}
		before.Agents, before.Dormant = snapshot.Agents, dormantIn(p.Sources)
		before.LanguageServers, before.Debugging = snapshot.LanguageServers, snapshot.Debugging
		for _, a := range before.Agents {
			x.version.Providers[a.Model] = providers(cfg, a.Model)
		}
	}
	x.widened = approval.Widened(before, x.version)
	files := map[string]string{}
	for _, src := range c.sources {
		if isProjectFile(src.Path) {
			files[src.Path] = ""
			if src.Present {
				files[src.Path] = approval.SHA256(string(src.Content))
			}
		}
	}
	kept := maps.Clone(files)
	for _, ref := range c.Snapshot.Prompts {
		now, accepted := c.hashes[ref.Name], p.AcceptedPrompts[ref.Name]
		writable := optional(ref.Name) || x.version.Writable(ref.Name) || before.Writable(ref.Name)
		if p.CompiledHash == "" {
			accepted = acceptedAbsent // the first version is approved as a whole
		}
		if optional(ref.Name) {
			x.takeInstructions(ref, now, p.AcceptedPrompts[ref.Name], p.CompiledHash == "")
		} else {
			x.takePrompt(ref, now, accepted, writable, p.CompiledHash != "" && cfg.AsksFirst())
		}
		if x.writable[ref.Name] = writable; writable {
			files[ref.Name], kept[ref.Name] = now, x.keeps[ref.Name]
		}
	}
	x.hash, x.neutral = approval.Hash(files), approval.Hash(kept)
	var err error
	x.from, err = s.approvedTexts(ctx, p)
	return x, err
}

// acceptedAbsent stands for the hash of a prompt that was not there when its version was approved: its first text
// is accepted by the next load, unlike that of a file which only a later, unapproved version named.
const acceptedAbsent = "absent"

// takePrompt decides about one prompt: now is the hash of the file, "" if missing, and accepted that of the
// accepted text.
func (x *candidate) takePrompt(ref Reference, now, accepted string, writable, asks bool) {
	if now == "" {
		if accepted == "" || accepted == acceptedAbsent {
			x.takes[ref.Name] = acceptedAbsent
		}
		return
	}
	x.takes[ref.Name] = now
	agent := ""
	if len(ref.UsedBy) > 0 {
		agent = strings.TrimSuffix(ref.UsedBy[0], ".system_prompt")
	}
	place := approval.Place{AgentPath: agent, Key: "system_prompt"}
	switch {
	case !writable, accepted == now:
		x.keeps[ref.Name] = now
	case accepted != "" && accepted != acceptedAbsent:
		x.held = append(x.held, approval.Widening{
			Place: place, From: ref.Name + " sha256:" + accepted, To: ref.Name + " sha256:" + now,
		})
	case accepted == "", asks:
		x.widened = append(x.widened, approval.Widening{Place: place, To: ref.Name + " sha256:" + now})
	default:
		x.keeps[ref.Name] = now
	}
}

// takeInstructions decides about the project's instructions: no text of them counts before it is accepted, and they
// never refuse the files. That they are missing is accepted like a text.
func (x *candidate) takeInstructions(ref Reference, now, accepted string, first bool) {
	if now == "" {
		now = acceptedAbsent
	}
	if accepted == "" {
		accepted = acceptedAbsent
	}
	x.takes[ref.Name] = now
	if first {
		accepted = now // the first version is approved as a whole
	}
	x.keeps[ref.Name] = accepted
	if accepted == now {
		return
	}
	agent := ""
	if len(ref.UsedBy) > 0 {
		agent = strings.TrimSuffix(ref.UsedBy[0], ".instructions")
	}
	x.held = append(x.held, approval.Widening{
		Place: approval.Place{AgentPath: agent, Key: "instructions.agents_md"},
		From:  instructionsAre(accepted), To: instructionsAre(now),
	})
}

func instructionsAre(sha string) string {
	if sha == acceptedAbsent {
		return ""
	}
	return dsl.InstructionsPath + " sha256:" + sha
}

// defaultSteps is a run's default number of steps, as in the harness.
const defaultSteps = 20

// providers returns the providers that an alias leads to.
func providers(cfg *localconfig.Config, alias string) []string {
	route, err := cfg.Route(alias)
	if err != nil {
		return nil
	}
	var list []string
	for _, t := range route.Targets {
		list = append(list, t.Provider)
	}
	return list
}

// dormantIn returns the values of keys that are not in force; it is empty for files that do not compile.
func dormantIn(sources []dsl.File) map[approval.Place]string {
	files := make([]dsl.File, len(sources))
	for i, src := range sources {
		files[i] = dsl.File(src)
	}
	if parsed := dsl.Parse(files); parsed.Project != nil {
		return approval.DormantIn(parsed.Project)
	}
	return map[approval.Place]string{}
}

// approvedTexts returns the texts of the approved version: its project files and the accepted prompts.
func (s *Service) approvedTexts(ctx context.Context, p Project) ([]approval.Text, error) {
	var list []approval.Text
	for _, src := range p.Sources {
		if isProjectFile(src.Path) {
			list = append(list, approval.Text{Path: src.Path, Content: string(src.Content), Absent: !src.Present})
		}
	}
	var hashes []string
	for _, sha := range p.AcceptedPrompts {
		if sha != acceptedAbsent {
			hashes = append(hashes, sha)
		}
	}
	if len(hashes) == 0 {
		return list, nil
	}
	texts, err := s.Contents.PromptTexts(ctx, hashes)
	for path, sha := range p.AcceptedPrompts {
		list = append(list, approval.Text{Path: path, Content: texts[sha], Absent: sha == acceptedAbsent})
	}
	return list, err
}

// diff shows the files against the approved ones: the project files, and the prompts that need approval.
func (x *candidate) diff() string {
	var to []approval.Text
	shown := map[string]bool{}
	for _, src := range x.sources {
		if isProjectFile(src.Path) {
			to = append(to, approval.Text{Path: src.Path, Content: string(src.Content), Absent: !src.Present})
			shown[src.Path] = true
		}
	}
	for path, text := range x.texts {
		if x.writable[path] && x.takes[path] != x.was[path] {
			to = append(to, approval.Text{Path: path, Content: text})
			shown[path] = true
		}
	}
	if x.writable[dsl.InstructionsPath] && x.takes[dsl.InstructionsPath] == acceptedAbsent {
		shown[dsl.InstructionsPath] = true // they are gone
	}
	var from []approval.Text
	for _, t := range x.from {
		if shown[t.Path] || isProjectFile(t.Path) {
			from = append(from, t)
		}
	}
	return approval.Diff(from, to)
}

// The reasons of a conflict over an approval.
const (
	approvalRequired = "approval_required"
	approvalChanged  = "approval_changed"
)

// conflict refuses the files with their widenings and the way to approve them.
func (x *candidate) conflict(reason, id string) *fault.Error {
	say := "The project's files grant more than was approved (%s); it goes on with the approved version. `kaged " +
		"project approve` shows and approves them."
	if reason == approvalChanged {
		say = "The project's files are not those that were to be approved (now: %s); look at them again, and approve " +
			"their hash."
	}
	return fault.New(fault.Conflict, say, summary(x.all())).
		With("reason", reason).With("project_id", id).With("hash", x.hash).With("widened", widenings(x.all())).
		With("diff", x.diff())
}

// all are the widenings that an approval of the files would allow.
func (x *candidate) all() []approval.Widening {
	return append(x.widened[:len(x.widened):len(x.widened)], x.held...)
}

// summary names the first of the keys that widen.
func summary(list []approval.Widening) string {
	const most = 3
	var words []string
	for i, w := range list {
		if i == most {
			words = append(words, "and more")
			break
		}
		words = append(words, strings.TrimPrefix(w.AgentPath+": "+w.Key, ": "))
	}
	if len(words) == 0 {
		return "nothing that needs approval"
	}
	return strings.Join(words, ", ")
}

// The most widenings that are listed, and the longest value of one in bytes.
const (
	maxWidenings = 200
	maxGrant     = 1000
)

// Listed returns a list as it is shown: as many as fit, and the last says how many more there are.
func Listed(list []approval.Widening) []approval.Widening {
	shown := slices.Clone(list)
	if len(list) > maxWidenings {
		shown = append(shown[:maxWidenings], approval.Widening{
			Place: approval.Place{Key: "..."}, To: fmt.Sprintf("%d more", len(list)-maxWidenings),
		})
	}
	for i := range shown {
		shown[i].From, shown[i].To = grant(shown[i].From), grant(shown[i].To)
	}
	return shown
}

// widenings returns a list as details of an error and records hold it.
func widenings(list []approval.Widening) []any {
	orNil := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	out := []any{}
	for _, w := range Listed(list) {
		out = append(out, map[string]any{"agent_path": w.AgentPath, "key": w.Key, "from": orNil(w.From), "to": orNil(w.To)})
	}
	return out
}

func grant(text string) string {
	return strings.ToValidUTF8(clip.Marked(text, maxGrant, "…"), "\uFFFD")
}

// Approval compares the files of a project, as they are, with its approved version. It fails with not_found,
// dsl_invalid and local_config_invalid, and changes no row.
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

// current returns a registered project with an approved version, under the operator's rules as of now. One that
// waits for its first approval stays as it is.
func (s *Service) current(ctx context.Context, cfg *localconfig.Config, p Project) (Project, error) {
	p, err := s.upgrade(ctx, p)
	if err != nil {
		return p, err
	}
	return s.refresh(ctx, cfg, p)
}

// Approve makes the files with a hash the approved version of a project. It fails with validation_failed without a
// hash, with conflict (details reason approval_changed, hash, widened, diff) if the files have another, and as
// [Service.Reload] does. Approving the approved version again has no effect.
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

// saveTries is how often a change of a project is prepared that finds that it was approved otherwise meanwhile.
const saveTries = 5

// ErrOvertaken is another approval that was stored while a change was prepared.
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

// storeTexts keeps prompts by their hashes.
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

// take makes a compilation the current version of a project, if that needs no approval. It fails with conflict
// (details reason approval_required) if it does, and with [ErrOvertaken].
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

// fromCage reports whether an agent in a cage, of the approved version of any project, can have written a project
// file of x. A file that the approved version was compiled from itself, as that of a nested project, is approved
// already.
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

// compiledFrom reports whether a file with a content is among the sources of v.
func (v ApprovedVersion) compiledFrom(file string, content []byte) bool {
	return slices.ContainsFunc(v.Sources, func(src dsl.File) bool {
		return src.Present && path.Join(v.Root, src.Path) == file && bytes.Equal(src.Content, content)
	})
}

// await registers a project that waits for its first approval, and returns the conflict that says so.
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

// refuse records that files widen the approved version, and returns the conflict. A project that did not compile
// before takes its state from its approved version.
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

// upgrade approves the version of a project that was registered before approvals were kept, with its prompts as
// they are.
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

// promptTexts returns the texts of the prompts that are there, by path.
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
