package loop

import (
	"context"
	"fmt"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// todoTool is the tool with the todos in its results.
const todoTool = "kaged.todo"

// maxReminded is the most bytes of one todo in a reminder.
const maxReminded = 150

// reminder adds the open todos of the agent's issue to each request, unless the last results hold one of kaged.todo.
// The reminder is the request's note. It is no part of the conversation, so compaction does not touch it.
type reminder struct{ *invocation }

// ProcessInput implements [Processor].
func (*reminder) ProcessInput(context.Context, *Call) error { return nil }

// ProcessInputStep implements [Processor].
func (r *reminder) ProcessInputStep(_ context.Context, call *Call) error {
	if r.todos.Open > 0 && !r.shown(call.Request.Messages) {
		call.Request.Note = reminderOf(r.toolContext.Issue, r.todos)
	}
	return nil
}

// ProcessOutputChunk implements [Processor].
func (*reminder) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }

// shown reports whether the last results hold one of kaged.todo.
func (r *reminder) shown(messages []llm.Message) bool {
	if len(messages) == 0 || messages[len(messages)-1].Role != llm.RoleTool {
		return false
	}
	for _, b := range messages[len(messages)-1].Blocks {
		if b.Result == nil {
			continue
		}
		if name := r.canonicalName(b.Result.Name); name == todoTool || strings.HasPrefix(name, todoTool+".") {
			return true
		}
	}
	return false
}

// reminderOf returns the todos as a checklist.
func reminderOf(issue int64, t contract.OpenTodos) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Open todos of issue #%d", issue)
	if len(t.Shown) < t.Open {
		fmt.Fprintf(&b, " (%d of %d)", len(t.Shown), t.Open)
	}
	b.WriteString("; kaged.todo changes them:")
	for _, todo := range t.Shown {
		mark := "[ ]"
		if todo.Working {
			mark = "[>]"
		}
		fmt.Fprintf(&b, "\n- %s %s", mark, clip.JSON(valid(todo.Content), maxReminded))
		if todo.Criterion {
			b.WriteString(" (criterion)")
		}
	}
	return b.String()
}
