package runs

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
)

// Issues are the issues that runs work on.
type Issues interface {
	// OpenTodos returns the open todos of an issue, an empty list for an unknown issue. It fails with unavailable.
	OpenTodos(ctx context.Context, owner, project string, number int64) (contract.OpenTodos, error)
}

// todosTimeout is how long a step waits for the todos at most.
const todosTimeout = 250 * time.Millisecond

// todos returns the open todos of the run's issue, an empty list while they cannot be had: a run does not fail for
// want of a reminder.
func (r *Run) todos(ctx context.Context) contract.OpenTodos {
	if r.spec.Run.Issue == 0 {
		return contract.OpenTodos{}
	}
	bounded, cancel := context.WithTimeout(ctx, todosTimeout)
	defer cancel()
	list, err := r.Issues.OpenTodos(bounded, r.spec.Run.Owner, r.spec.Run.ProjectID, r.spec.Run.Issue)
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("an agent is not reminded of its todos", "run", r.ID(), "issue", r.spec.Run.Issue, "error", err)
	}
	return list
}
