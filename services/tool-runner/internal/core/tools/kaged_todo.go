package tools

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/tool"
	"kaged.dev/services/tool-runner/internal/core/tracker"
)

//go:embed kaged_todo.md
var kagedTodoText string

const kagedTodoName = "kaged.todo"

type todoParams struct {
	Action  string   `json:"action" enum:"view,set,add,start,done,drop,note" doc:"What to do."`
	Content string   `json:"content,omitempty" doc:"Text of the todo. Required for start, done, drop and note."`
	Items   []string `json:"items,omitempty" doc:"For set and add: the new todos, one line each."`
	Phase   string   `json:"phase,omitempty" doc:"For set and add: the phase they belong to."`
	Kind    string   `json:"kind,omitempty" enum:"step,criterion" default:"step" doc:"For set and add."`
	Text    string   `json:"text,omitempty" doc:"For note: at most 2000 characters."`
	Origin  string   `json:"origin_agent,omitempty" doc:"For set and add: the tree path of the agent that proposed them."`
}

type todoViewParams struct{}

type todoItemsParams struct {
	Items  []string `json:"items" doc:"The new todos, one line each."`
	Phase  string   `json:"phase,omitempty" doc:"The phase they belong to."`
	Kind   string   `json:"kind,omitempty" enum:"step,criterion" default:"step" doc:"A step of the plan, or an acceptance criterion."`
	Origin string   `json:"origin_agent,omitempty" doc:"The tree path of the agent that proposed them."`
}

type todoContentParams struct {
	Content string `json:"content" doc:"Text of the todo."`
}

type todoNoteParams struct {
	Content string `json:"content" doc:"Text of the todo."`
	Text    string `json:"text" doc:"At most 2000 characters."`
}

type todoResult struct {
	Todos    []todoRow `json:"todos" doc:"Those that were not dropped, in their order."`
	Markdown string    `json:"markdown" doc:"The same as a checklist: [>] is at work."`
}

type todoRow struct {
	ID          string  `json:"id"`
	Content     string  `json:"content"`
	Status      string  `json:"status" enum:"pending,in_progress,completed"`
	Kind        string  `json:"kind" enum:"step,criterion"`
	Phase       *string `json:"phase,omitempty"`
	Position    int64   `json:"position"`
	OriginAgent *string `json:"origin_agent,omitempty"`
}

func kagedTodo(d Deps) *tool.Entry {
	e := tool.Define(tool.Spec[todoParams, todoResult]{
		Name: kagedTodoName, Description: kagedTodoText, Category: tool.Write, RootOnly: true, DefaultRoot: true,
		ReadWhen: toolcall.When{{{Parameter: "action", Values: []string{"view"}}}},
		Action:   func(p *todoParams) string { return p.Action },
		Effect:   func(p *todoParams) tool.Effect { return looksOrWrites(p.Action == "view") },
		Aliases:  todoAliases(),
		Run:      d.workTodos,
	})
	e.Unavailable = d.trackerAway
	return e
}

func todoAliases() []tool.Alias {
	const of = kagedTodoName
	items := func(action string) func(todoItemsParams) todoParams {
		return func(p todoItemsParams) todoParams {
			return todoParams{Action: action, Items: p.Items, Phase: p.Phase, Kind: p.Kind, Origin: p.Origin}
		}
	}
	content := func(action string) func(todoContentParams) todoParams {
		return func(p todoContentParams) todoParams { return todoParams{Action: action, Content: p.Content} }
	}
	return []tool.Alias{
		tool.ActionOf(of, "view", "Show the todos of the session's issue.",
			func(todoViewParams) todoParams { return todoParams{Action: "view"} }),
		tool.ActionOf(of, "set", "Drop the open steps of the session's issue and write down new todos.", items("set")),
		tool.ActionOf(of, "add", "Write down more todos of the session's issue.", items("add")),
		tool.ActionOf(of, "start", "Put one todo at work, and the one at work back.", content("start")),
		tool.ActionOf(of, "done", "Complete a todo.", content("done")),
		tool.ActionOf(of, "drop", "Drop a step.", content("drop")),
		tool.ActionOf(of, "note", "Add a note to a todo.", func(p todoNoteParams) todoParams {
			return todoParams{Action: "note", Content: p.Content, Text: p.Text}
		}),
	}
}

// missing returns the error of a call that lacks a required parameter.
func (p *todoParams) missing() error {
	switch p.Action {
	case "set", "add":
		if len(p.Items) == 0 {
			return lacking("items", p.Action)
		}
	case "start", "done", "drop", "note":
		if strings.TrimSpace(p.Content) == "" {
			return lacking("content", p.Action)
		}
	}
	if p.Action == "note" && strings.TrimSpace(p.Text) == "" {
		return lacking("text", p.Action)
	}
	return nil
}

// workTodos executes one action.
func (d Deps) workTodos(ctx context.Context, call *tool.Call, p *todoParams) (todoResult, error) {
	if away := d.trackerAway(); away != nil {
		return todoResult{}, away
	}
	if err := p.missing(); err != nil {
		return todoResult{}, err
	}
	if call.From.Issue == 0 {
		return todoResult{}, fault.New(fault.NoBoundIssue,
			"This session is bound to no issue, so it has no todos. Ask the operator to bind one, or work without.")
	}
	list, err := d.Tracker.Work(ctx, trackerAt(call), tracker.Work{
		Number: call.From.Issue, Action: p.Action, Content: p.Content, Items: p.Items, Kind: p.Kind, Phase: p.Phase,
		Text:   p.Text,
		Origin: p.Origin,
	})
	if err != nil {
		return todoResult{}, trackerFailure(ctx, err)
	}
	recordTodos(call, p, list)
	result := todoResult{Todos: []todoRow{}, Markdown: list.Markdown}
	for _, t := range list.List {
		if t.Status != "abandoned" {
			result.Todos = append(result.Todos, todoRow{t.ID, t.Content, t.Status, t.Kind, t.Phase, t.Position, t.Origin})
		}
	}
	return result, nil
}

// todoEvents are the audit names of the actions that change data.
var todoEvents = map[string]string{
	"set": audit.TodoSet, "add": audit.TodoAdded, "start": audit.TodoStarted, "done": audit.TodoCompleted,
	"drop": audit.TodoDropped, "note": audit.TodoNoted,
}

// recordTodos writes the audit record of a call's change.
func recordTodos(call *tool.Call, p *todoParams, list tracker.Todos) {
	event := todoEvents[p.Action]
	if event == "" {
		return
	}
	fields := map[string]any{"issue_id": list.IssueID, "number": call.From.Issue}
	if p.Action == "set" || p.Action == "add" {
		fields["count"], fields["kind"] = len(p.Items), p.Kind
	} else {
		fields["todo_id"] = list.About
	}
	at := slices.IndexFunc(list.List, func(t tracker.Todo) bool { return t.ID == list.About })
	if at >= 0 && p.Action != "note" {
		fields["content"] = list.List[at].Content
	}
	if at >= 0 && p.Action == "done" {
		fields["kind"] = list.List[at].Kind
	}
	call.Record(event, fields)
}
