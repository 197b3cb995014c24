package workbench

import (
	"context"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// maxRounds bounds how often a project's files may ask for more files.
const maxRounds = 64

// readBatch is how many files are read at once: as many of the largest size as one message holds.
const readBatch = 8

// HasProject reports whether the folder holds a project file.
func (b *Bench) HasProject(ctx context.Context) (bool, error) {
	files, err := b.read(ctx, []string{dsl.ProjectFile})
	return err == nil && files[0].GetPresent(), err
}

// Explain says which tools an agent of the project has and why; agent "" is the root. Without a project it is about the
// defaults of a root agent. Warnings are sentences. It fails with not_found if there is no such agent, and with dsl_invalid
// if the project cannot be used.
func (b *Bench) Explain(ctx context.Context, agent string) (resp *harnessv1.ExplainToolsResponse, warnings []string, err error) {
	req := &harnessv1.ExplainToolsRequest{Agent: agent}
	for _, rule := range b.file.DefaultTools {
		req.DefaultTools = append(req.DefaultTools, &harnessv1.ToolSwitch{Pattern: rule.Pattern, Enabled: rule.Enabled})
	}
	project, err := b.HasProject(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !project && agent != "" && agent != rootAgent {
		return nil, nil, b.noProject(agent)
	}
	wanted := []string{dsl.ProjectFile, dsl.OverlayFile}
	for round := 0; ; round++ {
		if project {
			files, err := b.read(ctx, wanted)
			if err != nil {
				return nil, nil, err
			}
			req.Files = append(req.Files, files...)
		}
		if resp, err = b.harness.ExplainTools(ctx, req); err != nil {
			return nil, nil, err
		}
		if wanted = resp.GetWanted(); len(wanted) == 0 {
			break
		}
		if round == maxRounds {
			return nil, nil, fault.New(fault.DSLInvalid, "The project's files refer to each other more than %d deep.", maxRounds)
		}
	}
	return resp, warningsOf(resp), refusal(resp)
}

func warningsOf(resp *harnessv1.ExplainToolsResponse) []string {
	var list []string
	for _, d := range resp.GetDiagnostics() {
		if d.GetSeverity() == harnessv1.Severity_SEVERITY_WARNING {
			list = append(list, sentence(d))
		}
	}
	return list
}

// refusal says what is wrong with the project, nil for nothing: dsl_invalid with details.errors, as a daemon has it.
func refusal(resp *harnessv1.ExplainToolsResponse) error {
	var wrong []any
	for _, d := range resp.GetDiagnostics() {
		if d.GetSeverity() != harnessv1.Severity_SEVERITY_WARNING {
			wrong = append(wrong, map[string]any{
				"file": d.GetFile(), "line": d.GetLine(), "column": d.GetColumn(), "path": d.GetPath(), "kind": d.GetKind(), "reason": d.GetMessage(),
			})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.DSLInvalid, "The project file does not compile.").With("errors", wrong)
}

// read returns files of the project as the compiler takes them.
func (b *Bench) read(ctx context.Context, paths []string) ([]*harnessv1.SourceFile, error) {
	var files []*harnessv1.SourceFile
	for start := 0; start < len(paths); start += readBatch {
		resp, err := b.tools.ReadProject(ctx, &toolrunnerv1.ReadProjectRequest{Root: b.root, Paths: paths[start:min(start+readBatch, len(paths))]})
		if err != nil {
			return nil, err
		}
		for _, f := range resp.GetFiles() {
			files = append(files, &harnessv1.SourceFile{
				Path: f.GetPath(), Present: f.GetState() == toolrunnerv1.FileState_FILE_STATE_FOUND, Content: f.GetContent(), Reason: f.GetReason(),
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
	resp, _, err := b.Explain(ctx, path)
	if err != nil {
		return Caller{}, err
	}
	as := Caller{Agent: resp.GetAgent(), Cage: resp.GetCage()}
	for _, d := range resp.GetDecisions() {
		if d.GetEnabled() {
			as.Tools = append(as.Tools, d.GetTool())
		}
	}
	return as, nil
}

func (b *Bench) noProject(agent string) error {
	return fault.New(fault.NotFound, "There is no %s in %s, so there is no agent %s; `kaged init` makes one.", dsl.ProjectFile, b.root, agent)
}
