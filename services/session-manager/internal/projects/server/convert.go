package server

import (
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

func summary(p projects.Project) *apiv1.ProjectSummary {
	return &apiv1.ProjectSummary{
		Id: p.ID, Path: p.Path, Label: p.Label, Description: p.Description, LastOpenedAt: p.LastOpenedAt,
		State: state(p.State), SessionCount: int32(p.SessionCount),
	}
}

func registered(p projects.Project) *apiv1.RegisteredProject {
	r := &apiv1.RegisteredProject{
		Id: p.ID, Path: p.Path, Label: p.Label, State: state(p.State), RegisteredAt: p.RegisteredAt, Warnings: p.Warnings,
		Diagnostics: diagnostics(p.Diagnostics),
	}
	if p.State == projects.Pending {
		r.Unresolved = unresolved(p.Unresolved)
	}
	return r
}

func details(d projects.Details) *apiv1.Project {
	return &apiv1.Project{
		Id: d.ID, Path: d.Path, Label: d.Label, Description: d.Description, State: state(d.State), RegisteredAt: d.RegisteredAt,
		LastOpenedAt: d.LastOpenedAt, DslVersion: int32(d.DSLVersion), ResolvedAliases: d.ResolvedAliases, SessionCount: int32(d.SessionCount),
		Diagnostics: diagnostics(d.Diagnostics),
	}
}

func diagnostics(list []projects.Diagnostic) []*apiv1.ProjectDiagnostic {
	out := make([]*apiv1.ProjectDiagnostic, len(list))
	for i, d := range list {
		severity := "error"
		if d.Warning {
			severity = "warning"
		}
		out[i] = &apiv1.ProjectDiagnostic{
			Code: d.Kind, Severity: severity, Message: d.Message, Path: d.Path, File: d.File, Line: int32(d.Line), Column: int32(d.Column),
		}
	}
	return out
}

func comparison(a projects.Approval) *apiv1.GetProjectApprovalResponse {
	out := &apiv1.GetProjectApprovalResponse{
		State: apiv1.ProjectApprovalState_PROJECT_APPROVAL_STATE_APPROVED, Diff: a.Diff,
		ApprovedHash: unlessEmpty(a.ApprovedHash), PendingHash: unlessEmpty(a.PendingHash),
	}
	if a.Required {
		out.State = apiv1.ProjectApprovalState_PROJECT_APPROVAL_STATE_REQUIRED
	}
	for _, w := range projects.Listed(a.Widened) {
		out.Widened = append(out.Widened, &apiv1.Widening{AgentPath: w.AgentPath, Key: w.Key, From: unlessEmpty(w.From), To: unlessEmpty(w.To)})
	}
	return out
}

func unlessEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func capabilities(c projects.Capabilities) *apiv1.GetProjectCapabilitiesResponse {
	mode := func(granted []string) string {
		if len(granted) == 0 {
			return "disabled"
		}
		return "isolated"
	}
	agents := make([]*apiv1.AgentCapabilities, len(c.Agents))
	for i, a := range c.Agents {
		agents[i] = &apiv1.AgentCapabilities{AgentPath: a.Path, Caged: a.Caged, Summary: a.Summary}
	}
	return &apiv1.GetProjectCapabilitiesResponse{
		Agents:     agents,
		Filesystem: &apiv1.FilesystemCapabilities{Mode: mode(c.Mounts), Mounts: c.Mounts},
		Network:    &apiv1.NetworkCapabilities{Mode: mode(c.Net), Allowlist: c.Net},
		Tools:      &apiv1.ToolCapabilities{Enabled: c.Tools, Disabled: c.ToolsOff},
	}
}

func state(s projects.State) apiv1.ProjectState {
	switch s {
	case projects.Ready:
		return apiv1.ProjectState_PROJECT_STATE_READY
	case projects.Pending:
		return apiv1.ProjectState_PROJECT_STATE_PENDING
	case projects.Invalid:
		return apiv1.ProjectState_PROJECT_STATE_INVALID
	}
	return apiv1.ProjectState_PROJECT_STATE_UNSPECIFIED
}

func unresolved(u projects.Unresolved) *apiv1.Unresolved {
	out := &apiv1.Unresolved{}
	for _, a := range u.Aliases {
		out.Aliases = append(out.Aliases, &apiv1.UnresolvedAlias{Name: a.Name, UsedBy: a.UsedBy})
	}
	for _, p := range u.Prompts {
		out.Prompts = append(out.Prompts, &apiv1.UnresolvedPrompt{Path: p.Name, UsedBy: p.UsedBy})
	}
	return out
}
