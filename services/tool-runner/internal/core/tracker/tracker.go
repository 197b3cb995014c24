// Package tracker is the view that the tools kaged.issue and kaged.todo have of the issues of a project. Times are
// milliseconds since the Unix epoch; a nil pointer is an absent value.
package tracker

import "context"

// At is a project of an operator, the agent that looks at it, and the request it does so for.
type At struct{ Operator, Project, Agent, Request string }

// Query is one action of kaged.issue. Each action reads its own fields.
type Query struct {
	Action                               string
	Number                               int64
	Status, Search                       string
	Limit, Offset                        int32
	Title, Body, Visibility, To, Comment string
	// ClientID makes a repeated creation one.
	ClientID string
}

// Answer is the answer to a query.
type Answer struct {
	// Issues are without bodies, Total how many match in all; of list.
	Issues []Issue
	Total  int64
	// Issue is of get, create and transition; IssueID of comment.
	Issue   Issue
	IssueID string
	// Updates are the oldest first; of get.
	Updates []Update
	// Update is of comment, From the status before of transition.
	Update Update
	From   string
}

// Issue is an issue.
type Issue struct {
	ID                   string
	Number               int64
	Title, Body          string
	OriginalBody         *string
	Status               string
	Assignment           *string
	CreatedBy            string
	CreatedAt, UpdatedAt int64
	ResolvedAt           *int64
	ResolvedBy           *string
	Legal                []string
}

// Update is one thing that happened to an issue.
type Update struct {
	ID, Author, Kind, Body string
	Metadata               []byte
	Visibility             string
	CreatedAt              int64
}

// Work is one action of kaged.todo on the todos of an issue. Each action reads its own fields.
type Work struct {
	Number                    int64
	Action, Content           string
	Items                     []string
	Kind, Phase, Text, Origin string
}

// Todos is the list of an issue's todos as an action leaves it.
type Todos struct {
	List     []Todo
	Markdown string
	// About is the id of the todo that the action was about, IssueID the issue's; "" for neither.
	About, IssueID string
}

// Todo is a todo.
type Todo struct {
	ID, Content, Status, Kind string
	Phase                     *string
	Position                  int64
	Origin                    *string
}

// Tracker keeps issues. It is safe for concurrent use. It fails with unavailable if it cannot be asked, and else with
// the codes of IssueToolService.
type Tracker interface {
	Use(ctx context.Context, at At, q Query) (Answer, error)
	Work(ctx context.Context, at At, w Work) (Todos, error)
}
