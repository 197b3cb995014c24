package projects

import (
	"context"
	"maps"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// candidate is the difference between a compilation and the approved version of a project.
type candidate struct {
	compilation
	version approval.Version
	// hash is the hash of the present files.
	hash string
	// widened are the grants that need approval before the files take effect. held are prompts that keep their accepted
	// text until then.
	widened, held []approval.Widening
	// keeps and takes are the hashes of the accepted prompts by path: without an approval of these files, and with one.
	keeps, takes map[string]string
	// neutral is the hash of the files with the accepted prompts.
	neutral string
	// was has the hashes of the accepted prompts. writable has the prompts that agents can write in one of the two
	// versions.
	was      map[string]string
	writable map[string]bool
	// from are the texts of the approved version.
	from []approval.Text
}

// compare compares c with the approved version of p, or with an empty version if p has none.
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
			accepted = acceptedAbsent // the first version is approved completely
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

// acceptedAbsent is stored as the hash of a prompt that was missing when its version was approved. The next load
// accepts its first text; the text of a file that only a later, unapproved version names is not accepted.
const acceptedAbsent = "absent"

// takePrompt handles one prompt: now is the hash of the file, "" if missing, and accepted that of the accepted text.
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

// takeInstructions handles the project's instructions: a text of them takes effect only after it is accepted, and they
// never make the files need approval. That they are missing is accepted like a text.
func (x *candidate) takeInstructions(ref Reference, now, accepted string, first bool) {
	if now == "" {
		now = acceptedAbsent
	}
	if accepted == "" {
		accepted = acceptedAbsent
	}
	x.takes[ref.Name] = now
	if first {
		accepted = now // the first version is approved completely
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

// defaultSteps is a run's default number of steps, equal to the harness's.
const defaultSteps = 20

// providers returns the providers of an alias.
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

// dormantIn returns the values of keys without effect; it returns none for files that do not compile.
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

// diff returns the diff between the approved files and the present ones: the project files, and the prompts that need
// approval.
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
		shown[dsl.InstructionsPath] = true // they are removed
	}
	var from []approval.Text
	for _, t := range x.from {
		if shown[t.Path] || isProjectFile(t.Path) {
			from = append(from, t)
		}
	}
	return approval.Diff(from, to)
}

// all returns the widenings that an approval of the files would allow.
func (x *candidate) all() []approval.Widening {
	return append(x.widened[:len(x.widened):len(x.widened)], x.held...)
}
