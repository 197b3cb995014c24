package issues

import (
	"bytes"
	"context"
	"strings"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
)

// Filter selects issues of a project, the highest number first.
type Filter struct {
	Project
	// Query is the searched text after [Fold]; "" selects all. If Parts is true, the text is searched as a part of titles
	// instead of as words.
	Query string
	Parts bool
	// Statuses are the wanted statuses; nil means those with work left.
	Statuses []Status
	// Before is an upper limit for the numbers of the issues, not included, 0 for no limit. Skip is the number of issues
	// to leave out at the beginning.
	Before, Skip int64
	Rows         int32
}

// Store stores issues. Its errors have codes.
type Store interface {
	// Create creates an issue with the next number of its project. If there is an issue with the same client id, Create
	// returns that one.
	Create(ctx context.Context, i Issue) (filed Issue, created bool, err error)
	// Find fails with not_found.
	Find(ctx context.Context, at Ref) (Issue, error)
	// List returns issues without bodies.
	List(ctx context.Context, f Filter) ([]Issue, error)
	// Count returns the number of issues that f selects, up to MaxCounted. It ignores Before, Skip and Rows.
	Count(ctx context.Context, f Filter) (int64, error)
	// Change locks the issue while change runs, and stores the result with its updates.
	Change(ctx context.Context, at Ref, change func(Issue) (Issue, []Update, error)) error
	// Updates returns updates after seq, the oldest first. LastUpdates returns the latest ones, the oldest first.
	Updates(ctx context.Context, issueID string, after int64, rows int32) ([]Update, error)
	LastUpdates(ctx context.Context, issueID string, rows int32) ([]Update, error)
	Todos(ctx context.Context, issueID string) ([]Todo, error)
	// OpenTodos returns content, status and kind of the open todos in their order. A missing issue has none.
	OpenTodos(ctx context.Context, at Ref) ([]Todo, error)
	// ChangeTodos locks the issue while change runs on its todos, and stores those that differ. It deletes no todo.
	ChangeTodos(ctx context.Context, at Ref, now int64, change func(Issue, []Todo) ([]Todo, error)) error
}

// Service applies the rules to a store.
type Service struct {
	store Store
	now   func() int64
}

// New returns a Service on a store.
func New(store Store) *Service {
	return &Service{store, func() int64 { return time.Now().UnixMilli() }}
}

// author returns the author of a change: an agent, or the operator.
func author(ctx context.Context) string {
	c := ident.CallerFrom(ctx)
	if c.AgentPath != "" {
		return "agent:" + c.AgentPath
	}
	return c.UserID
}

// byOperator fails with forbidden for an agent.
func byOperator(ctx context.Context, what string) error {
	if ident.CallerFrom(ctx).AgentPath == "" {
		return nil
	}
	return fault.New(fault.Forbidden, "Only the operator can change %s.", what)
}

// Draft has the fields of a new issue.
type Draft struct{ Title, Body, ClientID, ImportedFrom string }

// Create creates an issue. It fails with validation_failed, and with conflict for a client id that was used with other
// content.
func (s *Service) Create(ctx context.Context, p Project, d Draft) (Issue, bool, error) {
	d.Title = strings.TrimSpace(d.Title)
	for _, err := range []error{
		checkTitle(d.Title), checkMarkdown("body", d.Body), check.Text("client_id", d.ClientID, check.MaxID),
		check.Text("imported_from", d.ImportedFrom, MaxImported),
	} {
		if err != nil {
			return Issue{}, false, err
		}
	}
	now := s.now()
	i := Issue{
		ID: ident.New(), Project: p, Title: d.Title, Body: d.Body, Status: Open, CreatedBy: author(ctx), CreatedAt: now,
		UpdatedAt: now,
		Version:   1, ImportedFrom: d.ImportedFrom, ClientID: d.ClientID, ContentHash: contentHash(d.Title, d.Body),
	}
	filed, created, err := s.store.Create(ctx, i)
	if err == nil && !created && !bytes.Equal(filed.ContentHash, i.ContentHash) {
		err = fault.New(fault.Conflict, "client_id %q was used for issue #%d, which had other content.", d.ClientID,
			filed.Number).
			With("reason", ReasonClientID).With("number", filed.Number)
	}
	return filed, created, err
}

// Get returns an issue with its latest updates.
func (s *Service) Get(ctx context.Context, at Ref) (Issue, []Update, error) {
	i, err := s.store.Find(ctx, at)
	if err != nil {
		return Issue{}, nil, err
	}
	updates, err := s.store.LastUpdates(ctx, i.ID, MaxShown)
	return i, updates, err
}

// Listing is a request for a page of issues.
type Listing struct {
	Query, Status string
	Limit         int32
	Cursor        string
	Offset        int32
	Total         bool
}

// maxOffset is the maximum offset of a page.
const maxOffset = 100_000

// byParts marks cursors of searches for parts of titles.
const byParts = "p"

// List returns a page of a project's issues, and the total number if requested. It searches for words in titles and
// bodies. If no issue has them, it searches for the text as a part of titles.
func (s *Service) List(ctx context.Context, p Project, l Listing) (page.Page[Issue], int64, error) {
	req, err := page.Parse("issues", l.Limit, l.Cursor)
	if err != nil {
		return page.Page[Issue]{}, 0, err
	}
	f := Filter{Project: p, Rows: req.Fetch(), Skip: int64(l.Offset)}
	if f.Statuses, err = parseStatuses(l.Status); err != nil {
		return page.Page[Issue]{}, 0, err
	}
	if err := check.Text("q", l.Query, MaxQuery); err != nil {
		return page.Page[Issue]{}, 0, err
	}
	if l.Offset < 0 || l.Offset > maxOffset || (l.Offset > 0 && l.Cursor != "") {
		return page.Page[Issue]{}, 0, check.Field("offset", "offset must be between 0 and %d, and without a cursor.",
			maxOffset)
	}
	f.Query = strings.TrimSpace(Fold(l.Query))
	if req.After != nil {
		f.Before, f.Parts = req.After.N, req.After.S == byParts
	}
	rows, err := s.store.List(ctx, f)
	if err == nil && len(rows) == 0 && f.Query != "" && req.After == nil {
		f.Parts = true
		rows, err = s.store.List(ctx, f)
	}
	if err != nil {
		return page.Page[Issue]{}, 0, err
	}
	var total int64
	if l.Total {
		if total, err = s.store.Count(ctx, f); err != nil {
			return page.Page[Issue]{}, 0, err
		}
	}
	mark := ""
	if f.Parts {
		mark = byParts
	}
	return page.Cut(req, rows, func(i Issue) page.Key { return page.Key{N: i.Number, S: mark} }), total, nil
}

// parseStatuses reads statuses separated by commas. It returns nil for "".
func parseStatuses(text string) ([]Status, error) {
	switch text {
	case "":
		return nil, nil
	case "all":
		return Statuses(), nil
	}
	var list []Status
	for name := range strings.SplitSeq(text, ",") {
		if !Status(name).Known() {
			return nil, check.Field("status", "status must be all, or some of %s, separated by commas.",
				strings.Join(Names(Statuses()), ", "))
		}
		list = append(list, Status(name))
	}
	return list, nil
}

// Update changes an issue. Only the operator may change title, body and assignment.
func (s *Service) Update(ctx context.Context, at Ref, c Change) (Changed, error) {
	if c.Title != nil || c.Body != nil || c.Assign {
		if err := byOperator(ctx, "title, body and assignment"); err != nil {
			return Changed{}, err
		}
	}
	if err := c.check(); err != nil {
		return Changed{}, err
	}
	var out Changed
	err := s.store.Change(ctx, at, func(i Issue) (Issue, []Update, error) {
		changed, updates, err := c.apply(i, author(ctx), s.now())
		out = changed
		return changed.Issue, updates, err
	})
	return out, err
}

// Comment adds a comment and returns it and the issue's id.
func (s *Service) Comment(ctx context.Context, at Ref, body string, v Visibility) (u Update, issueID string,
	err error,
) {
	switch {
	case strings.TrimSpace(body) == "":
		return Update{}, "", check.Field("body", "body must not be empty.")
	case v != ForAll && v != ForOperator:
		return Update{}, "", check.Field("visibility", "visibility must be all or operator_only.")
	}
	if err := checkMarkdown("body", body); err != nil {
		return Update{}, "", err
	}
	err = s.store.Change(ctx, at, func(i Issue) (Issue, []Update, error) {
		u, issueID = comment(author(ctx), body, v, s.now()), i.ID
		i.UpdatedAt = max(u.CreatedAt, i.UpdatedAt)
		return i, []Update{u}, nil
	})
	return u, issueID, err
}

// Updates returns a page of an issue's updates, the oldest first.
func (s *Service) Updates(ctx context.Context, at Ref, limit int32, cursor string) (page.Page[Update], error) {
	req, err := page.Parse("issue_updates", limit, cursor)
	if err != nil {
		return page.Page[Update]{}, err
	}
	i, err := s.store.Find(ctx, at)
	if err != nil {
		return page.Page[Update]{}, err
	}
	var after int64
	if req.After != nil {
		after = req.After.N
	}
	rows, err := s.store.Updates(ctx, i.ID, after, req.Fetch())
	if err != nil {
		return page.Page[Update]{}, err
	}
	return page.Cut(req, rows, func(u Update) page.Key { return page.Key{N: u.Seq} }), nil
}

// Todos returns the todos of an issue in their order.
func (s *Service) Todos(ctx context.Context, at Ref) ([]Todo, error) {
	i, err := s.store.Find(ctx, at)
	if err != nil {
		return nil, err
	}
	return s.store.Todos(ctx, i.ID)
}

// AddTodos appends todos and returns them.
func (s *Service) AddTodos(ctx context.Context, at Ref, n NewTodos) ([]Todo, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	var added []Todo
	now := s.now()
	err := s.store.ChangeTodos(ctx, at, now, func(_ Issue, list []Todo) ([]Todo, error) {
		out, err := n.append(list, now)
		if err == nil {
			added = out[len(list):]
		}
		return out, err
	})
	return added, err
}

// UpdateTodo changes a todo as the operator.
func (s *Service) UpdateTodo(ctx context.Context, at Ref, id string, c TodoChange) (Todo, error) {
	if err := byOperator(ctx, "a todo by its id"); err != nil {
		return Todo{}, err
	}
	var out Todo
	now := s.now()
	err := s.store.ChangeTodos(ctx, at, now, func(_ Issue, list []Todo) ([]Todo, error) {
		i, err := c.apply(list, id, author(ctx), now)
		if err == nil {
			out = list[i]
		}
		return list, err
	})
	return out, err
}

// Reminder returns the open todos for the reminder to an agent, and their total number.
func (s *Service) Reminder(ctx context.Context, at Ref) (shown []Todo, open int, err error) {
	list, err := s.store.OpenTodos(ctx, at)
	return window(list), len(list), err
}

// Worked is the result of an action of kaged.todo: the issue's id, its todos, and the id of the todo of the action, or
// "".
type Worked struct {
	IssueID string
	List    []Todo
	About   string
}

// Work executes one action of kaged.todo.
func (s *Service) Work(ctx context.Context, at Ref, w Work) (out Worked, err error) {
	if w.Action == View {
		out.List, err = s.Todos(ctx, at)
		return out, err
	}
	now := s.now()
	err = s.store.ChangeTodos(ctx, at, now, func(i Issue, before []Todo) ([]Todo, error) {
		after, about, err := w.apply(before, author(ctx), now)
		out = Worked{IssueID: i.ID, List: after, About: about}
		return after, err
	})
	return out, err
}

// AsTool converts the API's errors to those of tools: a missing issue, an invalid transition, invalid parameters.
func AsTool(err error, number int64) error {
	f := fault.From(err)
	switch {
	case f == nil:
		return nil
	case f.Code == fault.NotFound:
		return fault.New(fault.IssueNotFound, "The project has no issue #%d.", number).With("number", number)
	case f.Code == fault.Conflict && f.Details["reason"] == ReasonTransition:
		return fault.New(fault.InvalidTransition, "%s", f.Msg).With("from", f.Details["from"]).With("to",
			f.Details["to"]).With("legal", f.Details["legal"])
	}
	return asParams(err)
}
