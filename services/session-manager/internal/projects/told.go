package projects

import (
	"context"

	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// told is a registry that reports changes after they were stored.
type told struct {
	projects.Registry
	changed func(owner, id string, state projects.State)
	audited func(records ...audit.Record)
}

// Save implements [projects.Registry].
func (t told) Save(
	ctx context.Context, p projects.Project, was string, snapshot *projects.Snapshot,
	records func(created bool) []audit.Record,
) (projects.Project, bool, error) {
	var made []audit.Record
	note := func(created bool) []audit.Record {
		if records != nil {
			made = records(created)
		}
		return made
	}
	saved, created, err := t.Registry.Save(ctx, p, was, snapshot, note)
	if err == nil {
		t.changed(saved.Owner, saved.ID, saved.State)
		t.audited(made...)
	}
	return saved, created, err
}

// Invalidate implements [projects.Registry].
func (t told) Invalidate(
	ctx context.Context, owner, id string, diagnostics []projects.Diagnostic, now int64, record audit.Record,
) error {
	err := t.Registry.Invalidate(ctx, owner, id, diagnostics, now, record)
	if err == nil {
		t.changed(owner, id, projects.Invalid)
		t.audited(record)
	}
	return err
}

// Evaluated implements [projects.Registry].
func (t told) Evaluated(ctx context.Context, p projects.Project) error {
	err := t.Registry.Evaluated(ctx, p)
	if err == nil {
		t.changed(p.Owner, p.ID, p.State)
	}
	return err
}

// SetLabel implements [projects.Registry].
func (t told) SetLabel(ctx context.Context, owner, id string, label *string, record audit.Record) error {
	err := t.Registry.SetLabel(ctx, owner, id, label, record)
	if err == nil {
		t.changed(owner, id, "")
		t.audited(record)
	}
	return err
}
