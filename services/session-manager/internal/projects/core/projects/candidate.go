package projects

import (
	"context"
	"maps"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

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

// all are the widenings that an approval of the files would allow.
func (x *candidate) all() []approval.Widening {
	return append(x.widened[:len(x.widened):len(x.widened)], x.held...)
}
