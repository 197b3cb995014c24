package server

import (
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// names maps the names in core to the values of an enum of the contract.
type names[T comparable, E ~int32] map[T]E

// of returns the value's name in core, "" for an unset value.
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

//convert:use statusNames kindNames visibilityNames todoStatusNames todoKindNames metadataProto
//convert:one summary issues.Issue *apiv1.IssueSummary Project.ID=ProjectId
//convert:one whole(changed []string) issues.Issue *apiv1.Issue Project.ID=ProjectId
//convert:with >LegalTransitions=legal(in.Status) >UpdatedFields=changed
//convert:one detail(updates []issues.Update) issues.Issue *apiv1.IssueDetail Project.ID=ProjectId
//convert:with >LegalTransitions=legal(in.Status) >Updates=history(in.Number,updates)
//convert:one update(number int64) issues.Update *apiv1.IssueUpdate >IssueNumber=number
//convert:one todo issues.Todo *apiv1.IssueTodo
//convert:one note issues.Note *apiv1.TodoNote

func history(number int64, updates []issues.Update) []*apiv1.IssueUpdate {
	return mapped(updates, func(u issues.Update) *apiv1.IssueUpdate { return update(u, number) })
}

func metadataProto(of map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(of)
	if err != nil || s == nil {
		return &structpb.Struct{}
	}
	return s
}

func mapped[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i := range list {
		out[i] = f(list[i])
	}
	return out
}
