package sessions

import (
	"context"
	"slices"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Prompt is a part of an active agent's system prompt: its prompt file, or the project's instructions.
type Prompt struct {
	AgentPath string
	// InvocationID is empty for the root agent.
	InvocationID string
	// Path is the file, SHA256 the hex digest of Text.
	Path, SHA256, Text string
}

// Prompts returns the system prompts of a session's root agent, then those of its active agents below. They are the
// prompts of the active run, or, between runs, those of the next one. It fails with not_found and, between runs, as
// [projects.Service.Prepare] does.
func (s *Service) Prompts(ctx context.Context, session string) ([]Prompt, error) {
	current, err := s.find(ctx, session)
	if err != nil {
		return nil, err
	}
	snapshot, err := s.Projects.Snapshot(ctx, current.CompiledHash)
	if err != nil {
		return nil, err
	}
	agents, err := s.LiveAgents(ctx, session)
	if err != nil {
		return nil, err
	}
	hashes, texts, err := s.promptTexts(ctx, current)
	if err != nil {
		return nil, err
	}
	var prompts []Prompt
	for _, a := range append([]record.Invocation{{AgentPath: rootPath}}, agents...) {
		for _, path := range promptsOf(snapshot, a.AgentPath) {
			sha, given := hashes[path]
			if !given && path == dsl.InstructionsPath {
				continue // the project has no instructions, or no accepted ones
			}
			text, kept := texts[sha]
			if !kept {
				return nil, fault.New(fault.Internal, "The text of the prompt %s is not stored.", path)
			}
			prompts = append(prompts, Prompt{AgentPath: a.AgentPath, InvocationID: a.ID, Path: path, SHA256: sha, Text: text})
		}
	}
	return prompts, nil
}

// promptTexts returns the digests of a session's prompts by path, and their texts by digest.
func (s *Service) promptTexts(
	ctx context.Context, current record.Session,
) (hashes, texts map[string]string, err error) {
	if current.CurrentRun == "" {
		in, err := s.Projects.Prepare(ctx, live.PinOf(current))
		if err != nil {
			return nil, nil, err
		}
		texts = make(map[string]string, len(in.Prompts))
		for path, text := range in.Prompts {
			texts[in.PromptHashes[path]] = text
		}
		return in.PromptHashes, texts, nil
	}
	run, err := s.Store.Run(ctx, current.ID, current.CurrentRun)
	if err != nil {
		return nil, nil, err
	}
	wanted := make([]string, 0, len(run.PromptHashes))
	for _, sum := range run.PromptHashes {
		wanted = append(wanted, sum)
	}
	texts, err = s.Projects.PromptTexts(ctx, wanted)
	return run.PromptHashes, texts, err
}

// promptsOf returns the prompt file of an agent, then the project's instructions if the agent uses them.
func promptsOf(snapshot *projects.Snapshot, agent string) (paths []string) {
	for _, a := range snapshot.Agents {
		if a.Path == agent {
			paths = append(paths, a.Prompt)
		}
	}
	for _, ref := range snapshot.Prompts {
		if ref.Name == dsl.InstructionsPath && slices.Contains(ref.UsedBy, agent+".instructions") {
			paths = append(paths, ref.Name)
		}
	}
	return paths
}
