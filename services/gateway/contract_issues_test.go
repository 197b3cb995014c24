package gateway_test

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// issuesContract has the routes of issues and their todos.
func issuesContract() []exchange {
	issue := &apiv1.Issue{
		Id: "01I", ProjectId: "music-site", Number: 3, Title: "T", Body: "B",
		Status: apiv1.IssueStatus_ISSUE_STATUS_IN_PROGRESS, CreatedBy: "agent:primary",
		CreatedAt: 1, UpdatedAt: 2, Version: 4, LegalTransitions: []apiv1.IssueStatus{
			apiv1.IssueStatus_ISSUE_STATUS_RESOLVED,
		},
	}
	const issueJSON = `{"id":"01I","project_id":"music-site","number":3,"title":"T","body":"B","original_body":null,` +
		`"status":"in_progress","assignment":null,` +
		`"created_by":"agent:primary","created_at":1,"updated_at":2,"resolved_at":null,"resolved_by":null,"version":4,` +
		`"legal_transitions":["resolved"]}`
	update := &apiv1.IssueUpdate{
		Id: "01U", IssueNumber: 3, Author: "ada",
		Kind: apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_COMMENT, Body: "b", Metadata: &structpb.Struct{},
		Visibility: apiv1.IssueVisibility_ISSUE_VISIBILITY_ALL, CreatedAt: 1,
	}
	const updateJSON = `{"id":"01U","issue_number":3,"author":"ada","kind":"comment","body":"b","metadata":{},` +
		`"visibility":"all","created_at":1}`
	todo := &apiv1.IssueTodo{
		Id: "01T", Content: "c", Status: apiv1.TodoStatus_TODO_STATUS_PENDING,
		Kind: apiv1.TodoKind_TODO_KIND_CRITERION, Position: 1, Notes: []*apiv1.TodoNote{{
			Text: "n", Author: "ada",
			CreatedAt: 1,
		}}, CreatedAt: 1,
	}
	const todoJSON = `{"id":"01T","content":"c","status":"pending","kind":"criterion","phase":null,"position":1,` +
		`"notes":[{"text":"n","author":"ada","created_at":1}],` +
		`"origin_agent":null,"created_at":1,"completed_at":null,"verified_at":null,"verified_by":null}`
	const issues = "/api/v1/projects/music-site/issues"
	return []exchange{
		{
			"GET /api/v1/projects/{project_id}/issues", "GET", issues + "?q=a&status=open,resolved&limit=2", "",
			&apiv1.ListIssuesRequest{ProjectId: "music-site", Q: "a", Status: "open,resolved", Limit: 2},
			&apiv1.ListIssuesResponse{
				Items: []*apiv1.IssueSummary{{
					Id: "01I", ProjectId: "music-site", Number: 3, Title: "T",
					Status: apiv1.IssueStatus_ISSUE_STATUS_OPEN, Version: 1,
				}},
			}, 200,
			`{"items":[{"id":"01I","project_id":"music-site","number":3,"title":"T","status":"open","assignment":null,` +
				`"created_by":"","created_at":0,"updated_at":0,` +
				`"resolved_at":null,"resolved_by":null,"version":1}],"next_cursor":null,"has_more":false}`,
		},
		{
			"POST /api/v1/projects/{project_id}/issues", "POST", issues, `{"title":"T","body":"B","client_id":"c"}`,
			&apiv1.CreateIssueRequest{ProjectId: "music-site", Title: "T", Body: "B", ClientId: "c"},
			&apiv1.CreateIssueResponse{Issue: issue, Created: true}, 201, issueJSON,
		},
		{
			"GET /api/v1/projects/{project_id}/issues/{number}", "GET", issues + "/3", "",
			&apiv1.GetIssueRequest{ProjectId: "music-site", Number: 3}, &apiv1.GetIssueResponse{Issue: &apiv1.IssueDetail{
				Id: "01I", ProjectId: "music-site", Number: 3, Title: "T", Body: "B",
				Status: apiv1.IssueStatus_ISSUE_STATUS_IN_PROGRESS, CreatedBy: "agent:primary",
				CreatedAt: 1, UpdatedAt: 2, Version: 4, LegalTransitions: []apiv1.IssueStatus{
					apiv1.IssueStatus_ISSUE_STATUS_RESOLVED,
				}, Updates: []*apiv1.IssueUpdate{update},
			}}, 200, strings.TrimSuffix(issueJSON, "}") + `,"updates":[` + updateJSON + `]}`,
		},
		{
			"PATCH /api/v1/projects/{project_id}/issues/{number}", "PATCH", issues + "/3",
			`{"assignment":null,"status":"resolved","comment":"done"}`,
			&apiv1.UpdateIssueRequest{
				ProjectId: "music-site", Number: 3, Assignment: structpb.NewNullValue(),
				Status: apiv1.IssueStatus_ISSUE_STATUS_RESOLVED, Comment: "done",
			}, &apiv1.UpdateIssueResponse{Issue: issue}, 200, issueJSON,
		},
		{
			"GET /api/v1/projects/{project_id}/issues/{number}/updates", "GET", issues + "/3/updates?limit=1", "",
			&apiv1.ListIssueUpdatesRequest{ProjectId: "music-site", Number: 3, Limit: 1}, &apiv1.ListIssueUpdatesResponse{},
			200, emptyPage,
		},
		{
			"POST /api/v1/projects/{project_id}/issues/{number}/updates", "POST", issues + "/3/updates",
			`{"body":"b","visibility":"all"}`,
			&apiv1.AddIssueUpdateRequest{
				ProjectId: "music-site", Number: 3, Body: "b",
				Visibility: apiv1.IssueVisibility_ISSUE_VISIBILITY_ALL,
			},
			&apiv1.AddIssueUpdateResponse{Update: update}, 201, updateJSON,
		},
		{
			"GET /api/v1/projects/{project_id}/issues/{number}/todos", "GET", issues + "/3/todos", "",
			&apiv1.ListIssueTodosRequest{ProjectId: "music-site", Number: 3},
			&apiv1.ListIssueTodosResponse{Items: []*apiv1.IssueTodo{todo}},
			200, `{"items":[` + todoJSON + `]}`,
		},
		{
			"POST /api/v1/projects/{project_id}/issues/{number}/todos", "POST", issues + "/3/todos",
			`{"items":["c"],"kind":"criterion"}`,
			&apiv1.AddIssueTodosRequest{
				ProjectId: "music-site", Number: 3, Items: []string{"c"},
				Kind: apiv1.TodoKind_TODO_KIND_CRITERION,
			},
			&apiv1.AddIssueTodosResponse{Items: []*apiv1.IssueTodo{todo}}, 201, `{"items":[` + todoJSON + `]}`,
		},
		{
			"PATCH /api/v1/projects/{project_id}/issues/{number}/todos/{id}", "PATCH", issues + "/3/todos/01T",
			`{"verified":true}`,
			&apiv1.UpdateIssueTodoRequest{ProjectId: "music-site", Number: 3, Id: "01T", Verified: proto.Bool(true)},
			&apiv1.UpdateIssueTodoResponse{Todo: todo}, 200, todoJSON,
		},
	}
}
