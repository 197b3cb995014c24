package issues

import (
	"regexp"
	"slices"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// TodoStatus is the state of a todo.
type TodoStatus string

// The statuses of todos.
const (
	Pending   TodoStatus = "pending"
	Working   TodoStatus = "in_progress"
	Completed TodoStatus = "completed"
	Abandoned TodoStatus = "abandoned"
)

// TodoKind is the purpose of a todo.
type TodoKind string

// The kinds of todos.
const (
	Step      TodoKind = "step"
	Criterion TodoKind = "criterion"
)

// Note is a note on a todo.
type Note struct {
	Text      string `json:"text"`
	Author    string `json:"author"`
	CreatedAt int64  `json:"created_at"`
}

// Todo is a step or a criterion of an issue.
type Todo struct {
	ID          string
	Position    int
	Content     string
	Status      TodoStatus
	Kind        TodoKind
	Phase       *string
	Notes       []Note
	OriginAgent *string
	CreatedAt   int64
	CompletedAt *int64
	VerifiedAt  *int64
	VerifiedBy  *string
}

func (t Todo) open() bool { return t.Status == Pending || t.Status == Working }

// NewTodos are todos to add.
type NewTodos struct {
	Items       []string
	Kind        TodoKind
	Phase       string
	OriginAgent string
}

func (n *NewTodos) check() error {
	if n.Kind == "" {
		n.Kind = Step
	}
	switch {
	case len(n.Items) == 0:
		return check.Field("items", "items must name at least one todo.")
	case len(n.Items) > MaxItems:
		return check.Field("items", "items may name at most %d todos at once.", MaxItems)
	case n.Kind != Step && n.Kind != Criterion:
		return check.Field("kind", "kind must be step or criterion.")
	}
	for i := range n.Items {
		n.Items[i] = strings.TrimSpace(n.Items[i])
		if err := checkContent("items", n.Items[i]); err != nil {
			return err
		}
	}
	if err := check.Text("phase", n.Phase, MaxPhase); err != nil {
		return err
	}
	return check.Text("origin_agent", n.OriginAgent, check.MaxID)
}

func checkContent(field, content string) error {
	if content == "" {
		return check.Field(field, "%s must not be empty.", field)
	}
	if strings.ContainsAny(content, "\n\r") {
		return check.Field(field, "%s must be one line.", field)
	}
	return check.Text(field, content, MaxTodo)
}

// append returns list with the new todos at its end. It fails with validation_failed for more than MaxTodos.
func (n NewTodos) append(list []Todo, now int64) ([]Todo, error) {
	if len(list)+len(n.Items) > MaxTodos {
		return nil, check.Field("items", "An issue has at most %d todos, the dropped ones included; it has %d.", MaxTodos,
			len(list))
	}
	next := 0
	for _, t := range list {
		next = max(next, t.Position+1)
	}
	for i, content := range n.Items {
		t := Todo{
			ID: ident.New(), Position: next + i, Content: content, Status: Pending, Kind: n.Kind, Notes: []Note{},
			CreatedAt: now,
		}
		if n.Phase != "" {
			t.Phase = &n.Phase
		}
		if n.OriginAgent != "" {
			t.OriginAgent = &n.OriginAgent
		}
		list = append(list, t)
	}
	return list, nil
}

// move sets the status of a todo. If a todo is started, the one in progress goes back to pending.
func move(list []Todo, at int, to TodoStatus, now int64) {
	t := &list[at]
	if to == Working {
		for i := range list {
			if list[i].Status == Working {
				list[i].Status = Pending
			}
		}
	}
	if to != t.Status {
		t.CompletedAt, t.VerifiedAt, t.VerifiedBy = nil, nil, nil
	}
	if to == Completed && t.CompletedAt == nil {
		t.CompletedAt = &now
	}
	t.Status = to
}

func annotate(t *Todo, text, author string, now int64) error {
	if text = strings.TrimSpace(text); text == "" {
		return check.Field("text", "The note must not be empty.")
	}
	if err := check.Text("text", text, MaxNote); err != nil {
		return err
	}
	if len(t.Notes) >= MaxNotes {
		return check.Field("text", "A todo has at most %d notes.", MaxNotes)
	}
	t.Notes = append(slices.Clone(t.Notes), Note{Text: text, Author: author, CreatedAt: now})
	return nil
}

// maxReminded is the maximum number of open todos in a reminder.
const maxReminded = 5

// window returns the first open todos, or the first ones after which the todo in progress is included.
func window(open []Todo) []Todo {
	from := max(0, slices.IndexFunc(open, func(t Todo) bool { return t.Status == Working }))
	if from < maxReminded {
		from = 0
	}
	from = max(0, min(from, len(open)-maxReminded))
	return open[from:min(len(open), from+maxReminded)]
}

// TodoChange is an operator's change of a todo. Nil and empty fields mean no change.
type TodoChange struct {
	Content  *string
	Status   TodoStatus
	Verified *bool
	Note     string
}

// apply changes the todo with an id. It fails with bad_request, validation_failed and not_found.
func (c TodoChange) apply(list []Todo, id, author string, now int64) (int, error) {
	if c.Content == nil && c.Status == "" && c.Verified == nil && c.Note == "" {
		return 0, fault.New(fault.BadRequest, "Give at least one of content, status, verified and note.")
	}
	at := slices.IndexFunc(list, func(t Todo) bool { return t.ID == id })
	if at < 0 {
		return 0, fault.New(fault.NotFound, "The issue has no todo with this id.")
	}
	t := &list[at]
	if c.Content != nil {
		content := strings.TrimSpace(*c.Content)
		if err := checkContent("content", content); err != nil {
			return 0, err
		}
		t.Content = content
	}
	switch c.Status {
	case "":
	case Pending, Working, Completed, Abandoned:
		move(list, at, c.Status, now)
	default:
		return 0, check.Field("status", "status must be pending, in_progress, completed or abandoned.")
	}
	if c.Verified != nil {
		if *c.Verified && (t.Kind != Criterion || t.Status != Completed) {
			return 0, check.Field("verified", "Only a completed criterion can be verified; this is a %s %s.", t.Status, t.Kind)
		}
		t.VerifiedAt, t.VerifiedBy = nil, nil
		if *c.Verified {
			t.VerifiedAt, t.VerifiedBy = &now, &author
		}
	}
	if c.Note != "" {
		if err := annotate(t, c.Note, author, now); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// Action is an action of the tool kaged.todo.
type Action string

// The actions of kaged.todo.
const (
	View  Action = "view"
	Set   Action = "set"
	Add   Action = "add"
	Start Action = "start"
	Done  Action = "done"
	Drop  Action = "drop"
	Jot   Action = "note"
)

// Work is one call of kaged.todo.
type Work struct {
	Action  Action
	Content string
	New     NewTodos
	Text    string
}

// apply executes the action and returns the list and the id of the action's todo, or "". It fails with the errors of
// tools: invalid_params, todo_not_found, content_addressing_hint, invalid_transition.
func (w Work) apply(list []Todo, author string, now int64) ([]Todo, string, error) {
	switch w.Action {
	case View:
		return list, "", nil
	case Set, Add:
		if err := w.New.check(); err != nil {
			return nil, "", asParams(err)
		}
		if w.Action == Set && w.New.Kind == Step {
			for i := range list {
				if list[i].Kind == Step && list[i].open() {
					move(list, i, Abandoned, now)
				}
			}
		}
		out, err := w.New.append(list, now)
		return out, "", asParams(err)
	case Start, Done, Drop, Jot:
	default:
		return nil, "", fault.New(fault.InvalidParams,
			"action must be one of view, set, add, start, done, drop and note.").With("field", "action")
	}
	at, err := addressed(list, w.Content)
	if err != nil {
		return nil, "", err
	}
	t := &list[at]
	switch w.Action {
	case Start:
		err = from(t, "start", Working, Pending)
	case Done:
		err = from(t, "complete", Completed, Pending, Working)
	case Drop:
		if t.Kind == Criterion {
			err = fault.New(fault.InvalidTransition, "Only the operator can drop acceptance criteria.").With("content",
				t.Content)
		} else {
			err = from(t, "drop", Abandoned, Pending, Working)
		}
	}
	if err != nil {
		return nil, "", err
	}
	switch w.Action {
	case Start:
		move(list, at, Working, now)
	case Done:
		move(list, at, Completed, now)
	case Drop:
		move(list, at, Abandoned, now)
	case Jot:
		err = asParams(annotate(t, w.Text, author, now))
	}
	return list, t.ID, err
}

// from fails with invalid_transition if a todo has neither the target status nor one of the legal ones.
func from(t *Todo, verb string, to TodoStatus, legal ...TodoStatus) error {
	if t.Status == to || slices.Contains(legal, t.Status) {
		return nil
	}
	return fault.New(fault.InvalidTransition,
		"%q is %s, so it cannot be put to %s; to %s it again, add it with kaged.todo.add.", t.Content, t.Status, to, verb).
		With("from", string(t.Status)).With("to", string(to))
}

// asParams converts validation_failed to invalid_params, the error of tools.
func asParams(err error) error {
	f := fault.From(err)
	if f == nil || f.Code != fault.ValidationFailed {
		return err
	}
	return fault.New(fault.InvalidParams, "%s", f.Msg)
}

// idLike matches a text that agents use as the id of a todo.
var idLike = regexp.MustCompile(`(?i)^(task|todo|item|step|id)-\d+$`)

// maxListed is the maximum number of todos in an error.
const maxListed = 20

// addressed finds the todo that an agent names: the one with this content, apart from case and surrounding spaces, or
// else the only one that contains the text. Open todos come first.
func addressed(list []Todo, content string) (int, error) {
	wanted := strings.TrimSpace(content)
	if wanted == "" {
		return 0, fault.New(fault.InvalidParams, "content must say which todo is meant.").With("field", "content")
	}
	if idLike.MatchString(wanted) {
		return 0, fault.New(fault.ContentAddressingHint, "Todos have no ids such as %q; give the full text of the todo.",
			wanted).
			With("available", available(list))
	}
	wanted = strings.ToLower(wanted)
	var exact, part []int
	for i, t := range list {
		has := strings.ToLower(strings.TrimSpace(t.Content))
		switch {
		case t.Status == Abandoned:
		case has == wanted:
			exact = append(exact, i)
		case strings.Contains(has, wanted):
			part = append(part, i)
		}
	}
	if len(exact) > 0 {
		return openFirst(list, exact)[0], nil
	}
	part = openFirst(list, part)
	if len(part) == 1 {
		return part[0], nil
	}
	if len(part) > 1 {
		var names []string
		for _, i := range part[:min(len(part), maxListed)] {
			names = append(names, list[i].Content)
		}
		return 0, fault.New(fault.TodoNotFound, "%q is a part of %d todos; give the full text of one: %s.", content,
			len(part), strings.Join(names, "; ")).
			With("available", names)
	}
	names := available(list)
	if len(names) == 0 {
		return 0, fault.New(fault.TodoNotFound,
			"There is no todo %q: the list is empty. Write one down with kaged.todo.add.", content)
	}
	return 0, fault.New(fault.TodoNotFound, "There is no todo %q. The list has: %s.", content, strings.Join(names,
		"; ")).With("available", names)
}

// openFirst returns the open todos of a selection, or all if all are closed.
func openFirst(list []Todo, of []int) []int {
	var open []int
	for _, i := range of {
		if list[i].open() {
			open = append(open, i)
		}
	}
	if len(open) > 0 {
		return open
	}
	return of
}

func available(list []Todo) []string {
	names := []string{}
	for _, t := range list {
		if t.Status != Abandoned && len(names) < maxListed {
			names = append(names, t.Content)
		}
	}
	return names
}

// Markdown returns the checklist: one line for each todo that was not dropped, and the notes of the todo in progress.
func Markdown(list []Todo) string {
	marks := map[TodoStatus]string{Pending: "[ ]", Working: "[>]", Completed: "[x]"}
	var lines []string
	for _, t := range list {
		mark, shown := marks[t.Status]
		if !shown {
			continue
		}
		line := "- " + mark + " " + t.Content
		if t.Kind == Criterion {
			line += " (criterion)"
		}
		lines = append(lines, line)
		if t.Status == Working {
			for _, n := range t.Notes {
				lines = append(lines, "  → "+strings.ReplaceAll(n.Text, "\n", " "))
			}
		}
	}
	return strings.Join(lines, "\n")
}
