package server

import (
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// names are the values of an enum of the contract by their names in core.
type names[T comparable, E ~int32] map[T]E

// of returns the value's name in core, "" for one that is not said.
func (n names[T, E]) of(value E) (name T) {
	for name, v := range n {
		if v == value {
			return name
		}
	}
	return name
}

var (
	statusNames = names[issues.Status, apiv1.IssueStatus]{
		issues.Open: apiv1.IssueStatus_ISSUE_STATUS_OPEN, issues.Triaged: apiv1.IssueStatus_ISSUE_STATUS_TRIAGED,
		issues.Assigned:   apiv1.IssueStatus_ISSUE_STATUS_ASSIGNED,
		issues.InProgress: apiv1.IssueStatus_ISSUE_STATUS_IN_PROGRESS,
		issues.Resolved:   apiv1.IssueStatus_ISSUE_STATUS_RESOLVED, issues.Rejected: apiv1.IssueStatus_ISSUE_STATUS_REJECTED,
		issues.Reopened: apiv1.IssueStatus_ISSUE_STATUS_REOPENED,
	}
	kindNames = names[issues.Kind, apiv1.IssueUpdateKind]{
		issues.Comment:          apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_COMMENT,
		issues.StatusChange:     apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_STATUS_CHANGE,
		issues.TitleEdit:        apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_TITLE_EDIT,
		issues.BodyEdit:         apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_BODY_EDIT,
		issues.AssignmentChange: apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_ASSIGNMENT_CHANGE,
	}
	visibilityNames = names[issues.Visibility, apiv1.IssueVisibility]{
		issues.ForAll:      apiv1.IssueVisibility_ISSUE_VISIBILITY_ALL,
		issues.ForOperator: apiv1.IssueVisibility_ISSUE_VISIBILITY_OPERATOR_ONLY,
	}
	todoStatusNames = names[issues.TodoStatus, apiv1.TodoStatus]{
		issues.Pending: apiv1.TodoStatus_TODO_STATUS_PENDING, issues.Working: apiv1.TodoStatus_TODO_STATUS_IN_PROGRESS,
		issues.Completed: apiv1.TodoStatus_TODO_STATUS_COMPLETED, issues.Abandoned: apiv1.TodoStatus_TODO_STATUS_ABANDONED,
	}
	todoKindNames = names[issues.TodoKind, apiv1.TodoKind]{
		issues.Step: apiv1.TodoKind_TODO_KIND_STEP, issues.Criterion: apiv1.TodoKind_TODO_KIND_CRITERION,
	}
)

func legal(s issues.Status) []apiv1.IssueStatus {
	list := make([]apiv1.IssueStatus, 0, len(s.Legal()))
	for _, to := range s.Legal() {
		list = append(list, statusNames[to])
	}
	return list
}

func summary(i issues.Issue) *apiv1.IssueSummary {
	return &apiv1.IssueSummary{
		Id: i.ID, ProjectId: i.Project.ID, Number: i.Number, Title: i.Title, Status: statusNames[i.Status],
		Assignment: i.Assignment,
		CreatedBy:  i.CreatedBy, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, ResolvedAt: i.ResolvedAt,
		ResolvedBy: i.ResolvedBy, Version: i.Version,
	}
}

func whole(i issues.Issue, changed []string) *apiv1.Issue {
	return &apiv1.Issue{
		Id: i.ID, ProjectId: i.Project.ID, Number: i.Number, Title: i.Title, Body: i.Body, OriginalBody: i.OriginalBody,
		Status: statusNames[i.Status], Assignment: i.Assignment, CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt,
		UpdatedAt:  i.UpdatedAt,
		ResolvedAt: i.ResolvedAt, ResolvedBy: i.ResolvedBy, Version: i.Version, LegalTransitions: legal(i.Status),
		ImportedFrom:  i.ImportedFrom,
		UpdatedFields: changed,
	}
}

func detail(i issues.Issue, updates []issues.Update) *apiv1.IssueDetail {
	return &apiv1.IssueDetail{
		Id: i.ID, ProjectId: i.Project.ID, Number: i.Number, Title: i.Title, Body: i.Body, OriginalBody: i.OriginalBody,
		Status: statusNames[i.Status], Assignment: i.Assignment, CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt,
		UpdatedAt:  i.UpdatedAt,
		ResolvedAt: i.ResolvedAt, ResolvedBy: i.ResolvedBy, Version: i.Version, LegalTransitions: legal(i.Status),
		ImportedFrom: i.ImportedFrom,
		Updates:      mapped(updates, func(u issues.Update) *apiv1.IssueUpdate { return update(i.Number, u) }),
	}
}

func update(number int64, u issues.Update) *apiv1.IssueUpdate {
	metadata, err := structpb.NewStruct(u.Metadata)
	if err != nil || metadata == nil {
		metadata = &structpb.Struct{}
	}
	return &apiv1.IssueUpdate{
		Id: u.ID, IssueNumber: number, Author: u.Author, Kind: kindNames[u.Kind], Body: u.Body, Metadata: metadata,
		Visibility: visibilityNames[u.Visibility], CreatedAt: u.CreatedAt,
	}
}

func todo(t issues.Todo) *apiv1.IssueTodo {
	return &apiv1.IssueTodo{
		Id: t.ID, Content: t.Content, Status: todoStatusNames[t.Status], Kind: todoKindNames[t.Kind], Phase: t.Phase,
		Position: int32(t.Position),
		Notes: mapped(t.Notes, func(n issues.Note) *apiv1.TodoNote {
			return &apiv1.TodoNote{Text: n.Text, Author: n.Author, CreatedAt: n.CreatedAt}
		}),
		OriginAgent: t.OriginAgent, CreatedAt: t.CreatedAt, CompletedAt: t.CompletedAt, VerifiedAt: t.VerifiedAt,
		VerifiedBy: t.VerifiedBy,
	}
}

func mapped[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i := range list {
		out[i] = f(list[i])
	}
	return out
}
