package projects

import (
	"context"
	"slices"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Declares fails with validation_failed for a workflow that the approved project file does not declare, and with
// not_found for a project that owner has not registered.
func (s *Service) Declares(ctx context.Context, owner, id, workflow string) error {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return err
	}
	names := workflowsIn(p)
	if slices.Contains(names, workflow) {
		return nil
	}
	declared := "it declares none"
	if len(names) > 0 {
		declared = "it declares " + strings.Join(names, ", ")
	}
	return fault.New(fault.ValidationFailed, "The project file declares no workflow %q; %s.", workflow, declared).
		With("fields", []string{"assignment"}).With("workflows", names)
}

// workflowsIn returns the names of the workflows of a project's approved version.
func workflowsIn(p Project) []string {
	names := []string{}
	if parsed := dsl.Parse(p.Sources).Project; parsed != nil {
		for _, w := range parsed.Workflows {
			names = append(names, w.Name)
		}
	}
	return names
}
