package runs

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
)

// Issues reads issues.
type Issues interface {
	// OpenTodos returns the open todos of an issue; the list is empty for an unknown issue. It fails with unavailable.
	OpenTodos(ctx context.Context, owner, project string, number int64) (contract.OpenTodos, error)
}

// todosTimeout bounds the delay of a step by the lookup of todos.
const todosTimeout = 250 * time.Millisecond

// todos returns the open todos of the run's issue. The list is empty if the lookup fails: the run continues without
// the reminder.
func (r *Run) todos(ctx context.Context) contract.OpenTodos {
	if r.spec.Run.Issue == 0 {
		return contract.OpenTodos{}
	}
	bounded, cancel := context.WithTimeout(ctx, todosTimeout)
	defer cancel()
	list, err := r.Issues.OpenTodos(bounded, r.spec.Run.Owner, r.spec.Run.ProjectID, r.spec.Run.Issue)
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("an agent works without its todos: they could not be read", "run", r.ID(),
			"issue", r.spec.Run.Issue, "error", err)
	}
	return list
}
