package workbench

import (
	"context"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// maxRounds bounds how often a project's files may ask for more files.
const maxRounds = 64

// readBatch is how many files are read at once: as many of the largest size as one message holds.
const readBatch = 8

// HasProject reports whether the folder holds a project file, though it may be one that cannot be read, because it is
// too large or leads out of the project.
func (b *Bench) HasProject(ctx context.Context) (bool, error) {
	files, err := b.read(ctx, []string{dsl.ProjectFile})
	return err == nil && (files[0].Present || files[0].Reason != ""), err
}

// Explain says which tools an agent of the project has and why; agent "" is the root. Without a project it is about the
// defaults of a root agent. Warnings are sentences. It fails with not_found if there is no such agent, and with
// dsl_invalid if the project cannot be used.
func (b *Bench) Explain(ctx context.Context, agent string) (out compile.Explanation, warnings []string, err error) {
	in := compile.Input{OperatorTools: b.file.DefaultTools, Catalogue: func() (catalogue.Tools, error) {
		list, err := b.tools.ListTools(ctx, &toolrunnerv1.ListToolsRequest{})
		if err != nil {
			return nil, err
		}
		return toolwire.FromTools(list.GetTools())
	}}
	project, err := b.HasProject(ctx)
	if err != nil {
		return out, nil, err
	}
	if !project && agent != "" && agent != rootAgent {
		return out, nil, b.noProject(agent)
	}
	wanted := []string{dsl.ProjectFile, dsl.OverlayFile}
	for round := 0; ; round++ {
		if project {
			files, err := b.read(ctx, wanted)
			if err != nil {
				return out, nil, err
			}
			in.Files = append(in.Files, files...)
		}
		if out, err = compile.Explain(in, agent); err != nil {
			return out, nil, err
		}
		if wanted = out.Wanted; len(wanted) == 0 {
			break
		}
		if round == maxRounds {
			return out, nil, fault.New(fault.DSLInvalid, "The project's files refer to each other more than %d deep.", maxRounds)
		}
	}
	return out, warningsOf(out.Diagnostics), refusal(out.Diagnostics)
}

func warningsOf(diagnostics []dsl.Diagnostic) []string {
	var list []string
	for _, d := range diagnostics {
		if d.Severity == dsl.Warning {
			list = append(list, sentence(d))
		}
	}
	return list
}

// refusal returns the project's errors as one, nil if it has none: dsl_invalid with details.errors, as a daemon has
// it.
func refusal(diagnostics []dsl.Diagnostic) error {
	var wrong []any
	for _, d := range diagnostics {
		if d.Severity != dsl.Warning {
			wrong = append(wrong, map[string]any{
				"file": d.Pos.File, "line": d.Pos.Line, "column": d.Pos.Column, "path": d.Path, "kind": string(d.Kind),
				"reason": d.Message,
			})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.DSLInvalid, "The project file does not compile.").With("errors", wrong)
}

// sentence is a diagnostic as people read it.
func sentence(d dsl.Diagnostic) string { return d.Pos.String() + ": " + d.Message }

// read returns files of the project as the compiler takes them.
func (b *Bench) read(ctx context.Context, paths []string) ([]dsl.File, error) {
	var files []dsl.File
	for start := 0; start < len(paths); start += readBatch {
		resp, err := b.tools.ReadProject(
			ctx,
			&toolrunnerv1.ReadProjectRequest{Root: b.root, Paths: paths[start:min(start+readBatch, len(paths))]},
		)
		if err != nil {
			return nil, err
		}
		for _, f := range resp.GetFiles() {
			files = append(files, dsl.File{
				Path: f.GetPath(), Present: f.GetState() == toolrunnerv1.FileState_FILE_STATE_FOUND, Content: f.GetContent(),
				Reason: f.GetReason(),
			})
		}
	}
	return files, nil
}

// Agent returns the agent at a tree path as a caller: with its tools and in its cage.
func (b *Bench) Agent(ctx context.Context, path string) (Caller, error) {
	if project, err := b.HasProject(ctx); err != nil || !project {
		if err == nil {
			err = b.noProject(path)
		}
		return Caller{}, err
	}
	explained, _, err := b.Explain(ctx, path)
	if err != nil {
		return Caller{}, err
	}
	as := Caller{
		Agent: explained.Agent.Path, Cage: explained.Agent.Cage.Proto(),
		ApproveWrites: explained.Agent.ApproveWrites,
	}
	as.ProjectCaged, as.LanguageServers = explained.AnyCaged, explained.LanguageServers
	as.Debugging = explained.Debugging
	for _, d := range explained.Decisions {
		if d.Enabled {
			as.Tools = append(as.Tools, d.Names...)
		}
	}
	return as, nil
}

func (b *Bench) noProject(agent string) error {
	return fault.New(
		fault.NotFound,
		"There is no %s in %s, so there is no agent %s; `kaged init` makes one.",
		dsl.ProjectFile,
		b.root,
		agent,
	)
}
