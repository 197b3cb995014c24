package issue_test

import (
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/promises"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// promised has the errors that this package's tests have seen.
var promised promises.Ledger

// unprovoked are promised errors that no test of this package provokes, with the reason.
var unprovoked = map[string]string{}

// Another operator's issue is not_found on the routes of its todos and its history, and a request without a change is
// refused.
func TestRefusalsOfTodos(t *testing.T) {
	t.Parallel()
	c, ada, eve := one(t), as(t, "ada", ""), as(t, "eve", "")
	n := file(t, c, ada, "music", "First", "").GetNumber()
	add := func(items ...string) *apiv1.AddIssueTodosRequest {
		return &apiv1.AddIssueTodosRequest{ProjectId: "music", Number: n, Items: items}
	}
	added, err := c.AddIssueTodos(ada, add("one"))
	if err != nil {
		t.Fatal(err)
	}
	change := func(id string) *apiv1.UpdateIssueTodoRequest {
		return &apiv1.UpdateIssueTodoRequest{ProjectId: "music", Number: n, Id: id}
	}
	id := added.GetItems()[0].GetId()
	renamed, emptied := change(id), change(id)
	renamed.Content, emptied.Content = ptr("two"), ptr("")
	list := &apiv1.ListIssueTodosRequest{ProjectId: "music", Number: n}
	history := &apiv1.ListIssueUpdatesRequest{ProjectId: "music", Number: n}
	retitled := &apiv1.UpdateIssueRequest{ProjectId: "music", Number: n, Title: ptr("x")}
	for name, got := range map[string]struct {
		err  error
		want fault.Code
	}{
		"add, eve":           {second(c.AddIssueTodos(eve, add("hers"))), fault.NotFound},
		"add none":           {second(c.AddIssueTodos(ada, add())), fault.ValidationFailed},
		"list, eve":          {second(c.ListIssueTodos(eve, list)), fault.NotFound},
		"history, eve":       {second(c.ListIssueUpdates(eve, history)), fault.NotFound},
		"change, eve":        {second(c.UpdateIssue(eve, retitled)), fault.NotFound},
		"change a todo, eve": {second(c.UpdateIssueTodo(eve, renamed)), fault.NotFound},
		"change nothing":     {second(c.UpdateIssueTodo(ada, change(id))), fault.BadRequest},
		"an empty todo":      {second(c.UpdateIssueTodo(ada, emptied)), fault.ValidationFailed},
	} {
		if code := fault.CodeOf(rpc.FromStatus(got.err)); got.err == nil || code != got.want {
			t.Errorf("%s: %v, want %s", name, got.err, got.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
