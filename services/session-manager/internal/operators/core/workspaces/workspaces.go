// Package workspaces assigns a workspace to each operator of a shared deployment. A workspace serves one operator, and
// calls for an operator go to that operator's workspace only.
package workspaces

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

// State determines whether runs may start in a workspace.
type State string

// The states.
const (
	Active   State = "active"
	Draining State = "draining"
)

// Assignment is the workspace of an operator.
type Assignment struct {
	// Name is the name of the workspace. Operator is "" for a free workspace.
	Name, Operator string
	State          State
	// Number grows with each assignment of the workspace.
	Number int64
}

// Store stores assignments.
type Store interface {
	// Add stores a free workspace for each name without a row.
	Add(ctx context.Context, names []string) error
	// Of returns the assignment of an operator, a zero Assignment for an operator without a workspace.
	Of(ctx context.Context, operator string) (Assignment, error)
	// Assign assigns one of the free workspaces in names to the operator and stores the audit record that made returns. An
	// operator with a workspace keeps it. Assign fails with not_found if all are assigned.
	Assign(ctx context.Context, operator string, names []string, made func(Assignment) audit.Record) (Assignment, error)
	// Draining returns the names of the workspaces that are drained.
	Draining(ctx context.Context) ([]string, error)
}

// Told receives assignments. It is the issue service, which accepts calls of a workspace only for the workspace's
// operator.
type Told interface {
	Assigned(ctx context.Context, a Assignment) error
}

// Workspaces has the assignments of a deployment. It is safe for concurrent use.
type Workspaces struct {
	// Names are the configured workspaces. It is empty in a deployment of one operator, in which the default workspace has
	// no name.
	Names []string
	// Shared is true if several operators share the deployment.
	Shared bool
	Store  Store
	Told   Told
}

// Boot stores the configured workspaces. It may be repeated.
func (w *Workspaces) Boot(ctx context.Context) error {
	if !w.Shared {
		return nil
	}
	return w.Store.Add(ctx, w.Names)
}

// All returns the names of all workspaces: the default one has the empty name.
func (w *Workspaces) All() []string {
	if !w.Shared {
		return []string{""}
	}
	return w.Names
}

// Draining returns a function that finds the drained workspaces, nil in a deployment of one operator.
func (w *Workspaces) Draining() func(context.Context) ([]string, error) {
	if !w.Shared {
		return nil
	}
	return w.Store.Draining
}

// Take returns the workspace of an operator, and assigns a free workspace to an operator without one. It fails with
// unavailable, details.reason no_workspace, if all are assigned, and also if the issue service cannot be reached.
func (w *Workspaces) Take(ctx context.Context, operator string) (string, error) {
	if !w.Shared {
		return "", nil
	}
	a, err := w.Store.Of(ctx, operator)
	if err == nil && a.Name == "" {
		a, err = w.Store.Assign(ctx, operator, w.Names, func(a Assignment) audit.Record {
			return audit.New(ctx, "workspace.assigned", map[string]any{"workspace": a.Name, "assignment": a.Number})
		})
	}
	if fault.CodeOf(err) == fault.NotFound {
		return "", fault.New(fault.Unavailable, "No workspace is free; an administrator adds one to the deployment.").
			With("reason", "no_workspace").With("subsystem", "workspace")
	}
	if err != nil {
		return "", err
	}
	// The issue service is informed at each call, because an earlier process may have ended between the assignment and
	// this call.
	return a.Name, w.Told.Assigned(ctx, a)
}

// Current returns the workspace of an operator, "" for the default one and for an operator without a workspace.
func (w *Workspaces) Current(ctx context.Context, operator string) (string, error) {
	if !w.Shared {
		return "", nil
	}
	a, err := w.Store.Of(ctx, operator)
	return a.Name, err
}

// Check fails with not_found unless a workspace is the operator's present one. Rows of projects and sessions may still
// have the workspace of an earlier assignment.
func (w *Workspaces) Check(ctx context.Context, operator, name string) error {
	_, err := w.mine(ctx, operator, name)
	return err
}

// CheckStart fails like [Workspaces.Check], and with unavailable, details.reason workspace_draining, in a draining
// workspace.
func (w *Workspaces) CheckStart(ctx context.Context, operator, name string) error {
	a, err := w.mine(ctx, operator, name)
	if err == nil && a.State == Draining {
		err = fault.New(fault.Unavailable, "The workspace %s is drained: runs start again when an administrator ends that.",
			name).With("reason", "workspace_draining").With("subsystem", "workspace")
	}
	return err
}

func (w *Workspaces) mine(ctx context.Context, operator, name string) (Assignment, error) {
	if !w.Shared {
		return Assignment{State: Active}, nil
	}
	a, err := w.Store.Of(ctx, operator)
	if err == nil && (a.Name == "" || a.Name != name) {
		err = fault.New(fault.NotFound, "The workspace no longer exists.").With("reason", "workspace_gone")
	}
	return a, err
}
