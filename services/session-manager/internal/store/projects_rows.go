package store

import (
	"bytes"
	"encoding/json"

	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/core/transcript"
	"kaged.dev/services/session-manager/internal/store/db"
)

// saveParams is a project as its row. What project files say is cleaned of what Postgres cannot hold.
func saveParams(p projects.Project) (db.SaveProjectParams, error) {
	params := db.SaveProjectParams{
		Owner: p.Owner, ID: p.ID, Path: p.Path, Description: transcript.Storable(p.Description), DslVersion: int32(p.DSLVersion),
		State: string(p.State), CompiledHash: p.CompiledHash, RulesHash: p.RulesHash, Workspace: p.Workspace,
		RegisteredAt: p.RegisteredAt, UpdatedAt: p.UpdatedAt,
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
	} {
		text, err := toJSON(f.value)
		if err != nil {
			return params, err
		}
		*f.into = text
	}
	sources, err := json.Marshal(p.Sources)
	params.Sources = sources
	return params, err
}

// projectFromRow is the reverse; what was not selected stays empty.
func projectFromRow(row db.Project) (projects.Project, error) {
	p := projects.Project{
		Owner: row.OwnerUserID, ID: row.ID, Path: row.Path, Label: row.Label, Description: row.Description,
		DSLVersion: int(row.DslVersion), State: projects.State(row.State), CompiledHash: row.CompiledHash, RulesHash: row.RulesHash,
		Workspace: row.Workspace, RegisteredAt: row.RegisteredAt, UpdatedAt: row.UpdatedAt, LastOpenedAt: row.LastOpenedAt,
	}
	for _, f := range []struct {
		text json.RawMessage
		into any
	}{
		{row.Diagnostics, &p.Diagnostics},
		{row.Warnings, &p.Warnings},
		{row.Aliases, &p.Aliases},
		{row.Prompts, &p.Prompts},
		{row.Unresolved, &p.Unresolved},
		{row.Sources, &p.Sources},
	} {
		if len(f.text) == 0 {
			continue
		}
		if err := json.Unmarshal(f.text, f.into); err != nil {
			return p, err
		}
	}
	return p, nil
}

// toJSON encodes v for a jsonb column, which holds no NUL. encoding/json replaces what is not UTF-8 itself.
func toJSON(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	nul := []byte(`\u0000`)
	for i := 0; ; {
		j := bytes.Index(text[i:], nul)
		if j < 0 {
			return text, nil
		}
		at := i + j
		i = at + len(nul)
		if backslashes(text[:at])%2 == 0 {
			copy(text[at:], `\ufffd`)
		}
	}
}

// backslashes counts those that text ends with.
func backslashes(text []byte) int {
	return len(text) - len(bytes.TrimRight(text, `\`))
}
