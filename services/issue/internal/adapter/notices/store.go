package notices

import (
	"context"

	"kaged.dev/services/issue/internal/core/issues"
)

// Store is a store that sends a notice of each committed change.
type Store struct {
	issues.Store
	sender *Sender
}

// Around returns a store that sends notices of the changes in another store.
func (s *Sender) Around(store issues.Store) *Store { return &Store{store, s} }

// Create implements [issues.Store].
func (s *Store) Create(ctx context.Context, i issues.Issue) (issues.Issue, bool, error) {
	filed, created, err := s.Store.Create(ctx, i)
	if err == nil && created {
		s.sender.note(issues.Ref{Project: filed.Project, Number: filed.Number}, true)
	}
	return filed, created, err
}

// Change implements [issues.Store].
func (s *Store) Change(ctx context.Context, at issues.Ref,
	change func(issues.Issue) (issues.Issue, []issues.Update, error),
) error {
	changed := false
	err := s.Store.Change(ctx, at, func(i issues.Issue) (issues.Issue, []issues.Update, error) {
		out, updates, err := change(i)
		changed = len(updates) > 0
		return out, updates, err
	})
	if err == nil && changed {
		s.sender.note(at, false)
	}
	return err
}

// ChangeTodos implements [issues.Store].
func (s *Store) ChangeTodos(ctx context.Context, at issues.Ref, now int64,
	change func(issues.Issue, []issues.Todo) ([]issues.Todo, error),
) error {
	err := s.Store.ChangeTodos(ctx, at, now, change)
	if err == nil {
		s.sender.note(at, false)
	}
	return err
}

var _ issues.Store = (*Store)(nil)
