package store

import (
	"encoding/json"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/projects/store/db"
)

//convert:import check "kaged.dev/pkg/check"
//convert:one projectParams(was string) projects.Project db.SaveProjectParams
//convert:with >Description=check.Storable(in.Description) >WasApproved=was
//convert:with >Diagnostics=- >Warnings=- >Aliases=- >Prompts=- >Unresolved=- >AcceptedPrompts=- >Sources=-

// saveParams converts a project to its row. In the text of project files it replaces characters that Postgres cannot
// store.
func saveParams(p projects.Project, was string) (db.SaveProjectParams, error) {
	params := projectParams(p, was)
	if p.AcceptedPrompts == nil {
		p.AcceptedPrompts = map[string]string{}
	}
	for _, f := range []struct {
		into  *json.RawMessage
		value any
	}{
		{&params.Diagnostics, p.Diagnostics},
		{&params.Warnings, p.Warnings},
		{&params.Aliases, p.Aliases},
		{&params.Prompts, p.Prompts},
		{&params.Unresolved, p.Unresolved},
		{&params.AcceptedPrompts, p.AcceptedPrompts},
	} {
		text, err := database.JSON(f.value)
		if err != nil {
			return params, err
		}
		*f.into = text
	}
	sources, err := json.Marshal(p.Sources)
	params.Sources = sources
	return params, err
}

// projectFromRow is the reverse; unselected columns stay empty. A field that cannot be read stays empty, with a
// diagnostic: one row never hides the others.
func projectFromRow(row db.Project) projects.Project {
	p := projects.Project{
		Owner: row.OwnerUserID, ID: row.ID, Path: row.Path, Label: row.Label, Description: row.Description,
		DSLVersion: int(row.DslVersion), State: projects.State(row.State), CompiledHash: row.CompiledHash,
		RulesHash: row.RulesHash,
		Workspace: row.Workspace, RegisteredAt: row.RegisteredAt, UpdatedAt: row.UpdatedAt, LastOpenedAt: row.LastOpenedAt,
		ApprovedHash: row.ApprovedHash, ApprovedAt: row.ApprovedAt, ApprovedBy: row.ApprovedBy,
	}
	for _, f := range []struct {
		text json.RawMessage
		into any
		what string
	}{
		{row.Diagnostics, &p.Diagnostics, "diagnostics"},
		{row.Warnings, &p.Warnings, "warnings"},
		{row.Aliases, &p.Aliases, "aliases"},
		{row.Prompts, &p.Prompts, "prompts"},
		{row.Unresolved, &p.Unresolved, "unresolved references"},
		{row.Sources, &p.Sources, "sources"},
		{row.AcceptedPrompts, &p.AcceptedPrompts, "accepted prompts"},
	} {
		if len(f.text) == 0 {
			continue
		}
		if err := json.Unmarshal(f.text, f.into); err != nil {
			p.Diagnostics = append(p.Diagnostics, projects.Diagnostic{
				Kind: fault.Internal.String(), Warning: true,
				Message: "The stored " + f.what + " of this project cannot be read. Reload the project to make them again.",
			})
		}
	}
	return p
}
