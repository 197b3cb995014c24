// Package issues asks the service issue for the tools that work on issues.
package issues

import (
	"context"

	"kaged.dev/pkg/ident"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/tool-runner/internal/core/tracker"
)

// Client is a [tracker.Tracker].
type Client struct {
	client issuev1.IssueToolServiceClient
}

var _ tracker.Tracker = (*Client)(nil)

// New returns a client that asks client.
func New(client issuev1.IssueToolServiceClient) *Client { return &Client{client} }

// as returns a context in which the call is the agent's, for its operator.
func as(ctx context.Context, at tracker.At) context.Context {
	return ident.WithCaller(ctx, ident.Caller{UserID: at.Operator, RequestID: at.Request, AgentPath: at.Agent})
}

// Use implements tracker.Tracker.
func (c *Client) Use(ctx context.Context, at tracker.At, q tracker.Query) (tracker.Answer, error) {
	res, err := c.client.UseIssues(as(ctx, at), &issuev1.UseIssuesRequest{
		ProjectId: at.Project, Action: q.Action, Number: q.Number, Status: q.Status, Search: q.Search, Limit: q.Limit,
		Offset: q.Offset, Title: q.Title, Body: q.Body, Visibility: q.Visibility, To: q.To, Comment: q.Comment,
		ClientId: q.ClientID,
	})
	if err != nil {
		return tracker.Answer{}, err
	}
	a := tracker.Answer{
		Total: res.GetTotal(), Issue: issue(res.GetIssue()), IssueID: res.GetIssueId(), Update: update(res.GetUpdate()),
		From: res.GetFrom(),
	}
	for _, i := range res.GetIssues() {
		a.Issues = append(a.Issues, issue(i))
	}
	for _, u := range res.GetUpdates() {
		a.Updates = append(a.Updates, update(u))
	}
	return a, nil
}

// Work implements tracker.Tracker.
func (c *Client) Work(ctx context.Context, at tracker.At, w tracker.Work) (tracker.Todos, error) {
	res, err := c.client.WorkTodos(as(ctx, at), &issuev1.WorkTodosRequest{
		ProjectId: at.Project, Number: w.Number, Action: w.Action, Content: w.Content, Items: w.Items, Kind: w.Kind,
		Phase: w.Phase, Text: w.Text, OriginAgent: w.Origin,
	})
	if err != nil {
		return tracker.Todos{}, err
	}
	out := tracker.Todos{Markdown: res.GetMarkdown(), About: res.GetTodoId(), IssueID: res.GetIssueId()}
	for _, t := range res.GetTodos() {
		out.List = append(out.List, tracker.Todo{
			ID: t.GetId(), Content: t.GetContent(), Status: t.GetStatus(), Kind: t.GetKind(), Phase: t.Phase,
			Position: int64(t.GetPosition()), Origin: t.OriginAgent,
		})
	}
	return out, nil
}

func issue(i *issuev1.ToolIssue) tracker.Issue {
	if i == nil {
		return tracker.Issue{}
	}
	return tracker.Issue{
		ID: i.GetId(), Number: i.GetNumber(), Title: i.GetTitle(), Body: i.GetBody(), OriginalBody: i.OriginalBody,
		Status: i.GetStatus(), Assignment: i.Assignment, CreatedBy: i.GetCreatedBy(), CreatedAt: i.GetCreatedAt(),
		UpdatedAt: i.GetUpdatedAt(), ResolvedAt: i.ResolvedAt, ResolvedBy: i.ResolvedBy, Legal: i.GetLegalTransitions(),
	}
}

func update(u *issuev1.ToolUpdate) tracker.Update {
	return tracker.Update{
		ID: u.GetId(), Author: u.GetAuthor(), Kind: u.GetKind(), Body: u.GetBody(), Metadata: u.GetMetadata(),
		Visibility: u.GetVisibility(), CreatedAt: u.GetCreatedAt(),
	}
}
