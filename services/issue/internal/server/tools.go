package server

import (
	"context"
	"encoding/json"

	"kaged.dev/pkg/fault"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// Tools is the gRPC service of the tools.
type Tools struct {
	issuev1.UnimplementedIssueToolServiceServer
	issues     *issues.Service
	workspaces Workspaces
}

// NewTools returns the tools' service of the issues.
func NewTools(s *issues.Service, of Workspaces) *Tools { return &Tools{issues: s, workspaces: of} }

// UseIssues executes one action of kaged.issue.
func (s *Tools) UseIssues(ctx context.Context, req *issuev1.UseIssuesRequest) (*issuev1.UseIssuesResponse, error) {
	resp, err := s.use(ctx, req)
	return resp, issues.AsTool(err, req.GetNumber())
}

func (s *Tools) use(ctx context.Context, req *issuev1.UseIssuesRequest) (*issuev1.UseIssuesResponse, error) {
	resp, at := &issuev1.UseIssuesResponse{}, ref(ctx, req)
	switch req.GetAction() {
	case "list":
		p, total, err := s.issues.List(ctx, at.Project, issues.Listing{
			Query: req.GetSearch(), Status: req.GetStatus(), Limit: req.GetLimit(), Offset: req.GetOffset(), Total: true,
		})
		resp.Issues, resp.Total = mapped(p.Items, toolIssue), total
		return resp, err
	case "get":
		i, updates, err := s.issues.Get(ctx, at)
		resp.Issue, resp.Updates = toolIssue(i), mapped(updates, toolUpdate)
		return resp, err
	case "create":
		i, _, err := s.issues.Create(ctx, at.Project, issues.Draft{
			Title: req.GetTitle(), Body: req.GetBody(), ClientID: req.GetClientId(),
		})
		resp.Issue = toolIssue(i)
		return resp, err
	case "comment":
		u, id, err := s.issues.Comment(ctx, at, req.GetBody(), issues.Visibility(req.GetVisibility()))
		resp.Update, resp.IssueId = toolUpdate(u), id
		return resp, err
	case "transition":
		out, err := s.issues.Update(ctx, at, issues.Change{Status: issues.Status(req.GetTo()), Comment: req.GetComment()})
		resp.Issue, resp.From = toolIssue(out.Issue), string(out.From)
		return resp, err
	}
	return nil, fault.New(fault.InvalidParams, "action must be list, get, create, comment or transition.")
}

// WorkTodos executes one action of kaged.todo.
func (s *Tools) WorkTodos(ctx context.Context, req *issuev1.WorkTodosRequest) (*issuev1.WorkTodosResponse, error) {
	done, err := s.issues.Work(ctx, ref(ctx, req), issues.Work{
		Action: issues.Action(req.GetAction()), Content: req.GetContent(), Text: req.GetText(),
		New: issues.NewTodos{
			Items: req.GetItems(), Kind: issues.TodoKind(req.GetKind()), Phase: req.GetPhase(),
			OriginAgent: req.GetOriginAgent(),
		},
	})
	if err != nil {
		return nil, issues.AsTool(err, req.GetNumber())
	}
	return &issuev1.WorkTodosResponse{
		Todos: mapped(done.List, toolTodo), Markdown: issues.Markdown(done.List), TodoId: done.About, IssueId: done.IssueID,
	}, nil
}

// RemindTodos returns the open todos for the reminder to an agent.
func (s *Tools) RemindTodos(
	ctx context.Context, req *issuev1.RemindTodosRequest,
) (*issuev1.RemindTodosResponse, error) {
	shown, open, err := s.issues.Reminder(ctx, ref(ctx, req))
	if err != nil {
		return nil, err
	}
	return &issuev1.RemindTodosResponse{Todos: mapped(shown, toolTodo), Open: int32(open)}, nil
}

//convert:one toolIssue issues.Issue *issuev1.ToolIssue >LegalTransitions=issues.Names(in.Status.Legal())
//convert:one toolUpdate issues.Update *issuev1.ToolUpdate >Metadata=metadataText(in.Metadata)
//convert:one toolTodo issues.Todo *issuev1.ToolTodo

func metadataText(of map[string]any) []byte {
	text, err := json.Marshal(of)
	if err != nil || of == nil {
		return []byte("{}")
	}
	return text
}
