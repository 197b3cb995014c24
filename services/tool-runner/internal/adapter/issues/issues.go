// Package issues is the client of the service issue, for the tools that work on issues.
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

// New returns a Client that uses client.
func New(client issuev1.IssueToolServiceClient) *Client { return &Client{client} }

// as returns a context for a call by the agent on behalf of its operator.
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
	return answer(res), nil
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
	return todos(res), nil
}

//convert:one answer *issuev1.UseIssuesResponse tracker.Answer
//convert:one issue *issuev1.ToolIssue tracker.Issue LegalTransitions=Legal
//convert:one update *issuev1.ToolUpdate tracker.Update
//convert:one todos *issuev1.WorkTodosResponse tracker.Todos TodoId=About Todos=List
//convert:one todo *issuev1.ToolTodo tracker.Todo OriginAgent=Origin
