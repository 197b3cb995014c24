// Package tracker defines the access of the tools kaged.issue and kaged.todo to the issues of a project. Times are
// milliseconds since the Unix epoch; a nil pointer is an absent value.
package tracker

import "context"

// At is a project of an operator, the agent that accesses it, and the agent's request.
type At struct{ Operator, Project, Agent, Request string }

// Query is one action of kaged.issue. Each action reads its own fields.
type Query struct {
	Action                               string
	Number                               int64
	Status, Search                       string
	Limit, Offset                        int32
	Title, Body, Visibility, To, Comment string
	// ClientID identifies a creation: a repetition creates no second issue.
	ClientID string
}

// Answer is the answer to a query.
type Answer struct {
	// Issues are the issues of list, without bodies. Total is the number of all matches.
	Issues []Issue
	Total  int64
	// Issue is set by get, create and transition, IssueID by comment.
	Issue   Issue
	IssueID string
	// Updates are the updates of get, the oldest first.
	Updates []Update
	// Update is set by comment. From is the status before a transition.
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

// Update is a comment or a change of an issue.
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

// Todos is the list of an issue's todos after an action.
type Todos struct {
	List     []Todo
	Markdown string
	// About is the id of the todo of the action, IssueID the id of the issue; both may be "".
	About, IssueID string
}

// Todo is a todo.
type Todo struct {
	ID, Content, Status, Kind string
	Phase                     *string
	Position                  int64
	Origin                    *string
}

// Tracker stores issues. It is safe for concurrent use. It fails with unavailable if the issue service cannot be
// reached, and otherwise with the codes of IssueToolService.
type Tracker interface {
	Use(ctx context.Context, at At, q Query) (Answer, error)
	Work(ctx context.Context, at At, w Work) (Todos, error)
}
