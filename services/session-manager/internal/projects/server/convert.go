package server

import (
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

//convert:use state approvalStates
//convert:import approval "kaged.dev/services/session-manager/internal/projects/core/approval"
//convert:one diagnostics []projects.Diagnostic []*apiv1.ProjectDiagnostic
//convert:one dslDiagnostics []projects.Diagnostic []*apiv1.DslDiagnostic
//convert:one dslDiagnostic projects.Diagnostic *apiv1.DslDiagnostic Column=Col >DocLink=docLink(in.Kind)
//convert:one summary projects.Project *apiv1.ProjectSummary
//convert:one registered projects.Project *apiv1.RegisteredProject >Unresolved=pending(in)
//convert:one details projects.Details *apiv1.Project >ActivePlugins=-
//convert:one diagnostic projects.Diagnostic *apiv1.ProjectDiagnostic Kind=Code >Severity=severities[in.Warning]
//convert:one unresolved projects.Unresolved *apiv1.Unresolved >Plugins=-
//convert:one unresolvedAlias projects.Reference *apiv1.UnresolvedAlias
//convert:one unresolvedPrompt projects.Reference *apiv1.UnresolvedPrompt Name=Path

var severities = map[bool]string{false: "error", true: "warning"}

// pending returns the unresolved references of a project that waits for them.
func pending(p projects.Project) *apiv1.Unresolved {
	if p.State != projects.Pending {
		return nil
	}
	return unresolved(p.Unresolved)
}

//convert:one comparison projects.Approval *apiv1.GetProjectApprovalResponse Required=State
//convert:with >Widened=widened(projects.Listed(in.Widened))
//convert:one widened []approval.Widening []*apiv1.Widening
//convert:one widening approval.Widening *apiv1.Widening

var approvalStates = map[bool]apiv1.ProjectApprovalState{
	false: apiv1.ProjectApprovalState_PROJECT_APPROVAL_STATE_APPROVED,
	true:  apiv1.ProjectApprovalState_PROJECT_APPROVAL_STATE_REQUIRED,
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
