// Package store stores issues, their updates and their todos in Postgres. A change locks the row of its issue, so that
// the changes of one issue are made one after the other. The number of a new issue is taken in its transaction, so a
// failed transaction leaves no gap.
package store

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/optional"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/issue/internal/core/issues"
	"kaged.dev/services/issue/internal/store/db"
)

// Store implements [issues.Store].
type Store struct {
	db     database.DB
	recent int32
	most   int32 // the highest count of matching issues
}

// recent is the number of a project's newest issues that a search reads before it uses the index of words or titles. If
// they do not fill a page, the text is so rare that the index returns few issues; the index has no order.
const recent = 2000

// New returns the store in a database.
func New(db database.DB) *Store { return &Store{db, recent, issues.MaxCounted} }

// ProbeWrite writes the same rows as the start of a creation of an issue; its transaction is rolled back.
func ProbeWrite(ctx context.Context, tx pgx.Tx) error {
	_, err := db.New(tx).TakeNumber(ctx, "", "")
	return err
}

// scope returns a word that all issues of a project have and no text has: a lexeme of folded text has no capital
// letter.
func scope(p issues.Project) string {
	sum := md5.Sum([]byte(p.Owner + "\x00" + p.ID))
	return "P" + hex.EncodeToString(sum[:])
}

// words returns the text that is searched.
func words(title, body string) string { return issues.Fold(title) + "\n" + issues.Fold(body) }

// errTaken ends a transaction that must be rolled back, with the number that it took.
var errTaken = errors.New("the client id was used before")

// Create implements [issues.Store].
func (s *Store) Create(ctx context.Context, i issues.Issue) (filed issues.Issue, created bool, err error) {
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		q := db.New(tx)
		number, err := q.TakeNumber(ctx, i.Owner, i.Project.ID)
		if err != nil {
			return err
		}
		if i.ClientID != "" {
			// The counter's row is locked, so an issue with this client id is either committed or will never exist.
			row, err := q.FindByClientID(ctx, i.Owner, i.Project.ID, i.ClientID)
			if err == nil {
				filed = issueOf(db.FindIssueRow(row))
				return errTaken
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		i.Number = number
		filed, created = i, true
		err = q.CreateIssue(ctx, db.CreateIssueParams{
			ID: i.ID, OwnerUserID: i.Owner, ProjectID: i.Project.ID, Number: i.Number, Title: i.Title, Body: i.Body,
			Status:    string(i.Status),
			CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt, ImportedFrom: optional.NonZero(i.ImportedFrom),
			ClientID:    optional.NonZero(i.ClientID),
			ContentHash: i.ContentHash, Words: words(i.Title, i.Body), Scope: scope(i.Project),
			FoldedTitle: issues.Fold(i.Title),
		})
		crash.At(crash.IssueBeforeStore)
		return err
	})
	if errors.Is(err, errTaken) {
		return filed, false, nil
	}
	if err != nil {
		return issues.Issue{}, false, database.Fail(err, "create issue")
	}
	crash.At(crash.IssueStored)
	return filed, created, nil
}

// Find implements [issues.Store].
func (s *Store) Find(ctx context.Context, at issues.Ref) (issues.Issue, error) {
	row, err := db.New(s.db).FindIssue(ctx, at.Owner, at.ID, at.Number)
	if errors.Is(err, pgx.ErrNoRows) {
		return issues.Issue{}, issues.NotFound(at.Number)
	}
	return issueOf(row), database.Fail(err, "find issue")
}

// lock locks an issue until the transaction ends.
func lock(ctx context.Context, q *db.Queries, at issues.Ref) (issues.Issue, error) {
	row, err := q.LockIssue(ctx, at.Owner, at.ID, at.Number)
	if errors.Is(err, pgx.ErrNoRows) {
		return issues.Issue{}, issues.NotFound(at.Number)
	}
	return issueOf(db.FindIssueRow(row)), err
}

// Change implements [issues.Store].
func (s *Store) Change(ctx context.Context, at issues.Ref, change func(issues.Issue) (issues.Issue, []issues.Update,
	error),
) error {
	err := database.InTx(ctx, s.db, func(tx database.DB) error {
		before, err := lock(ctx, db.New(tx), at)
		if err != nil {
			return err
		}
		i, updates, err := change(before)
		if err != nil {
			return err
		}
		var p database.Pipeline
		q := db.New(&p)
		if i.Version != before.Version {
			err = q.ChangeIssue(ctx, db.ChangeIssueParams{
				ID: i.ID, Title: i.Title, Body: i.Body, OriginalBody: i.OriginalBody, Status: string(i.Status),
				Assignment: i.Assignment,
				UpdatedAt:  i.UpdatedAt, ResolvedAt: i.ResolvedAt, ResolvedBy: i.ResolvedBy, Version: i.Version,
				Words: words(i.Title, i.Body), Scope: scope(i.Project), FoldedTitle: issues.Fold(i.Title),
			})
		} else {
			err = q.TouchIssue(ctx, i.UpdatedAt, i.ID)
		}
		for _, u := range updates {
			metadata := json.RawMessage("{}")
			if u.Metadata != nil && err == nil {
				metadata, err = database.JSON(u.Metadata)
			}
			if err == nil {
				err = q.AddUpdate(ctx, db.AddUpdateParams{
					ID: u.ID, IssueID: i.ID, Author: u.Author, Kind: string(u.Kind), Body: u.Body, Metadata: metadata,
					Visibility: string(u.Visibility), CreatedAt: u.CreatedAt,
				})
			}
		}
		if err != nil {
			return err
		}
		return sendLast(ctx, &p, tx)
	})
	return stored(err, "change issue")
}

// Updates implements [issues.Store].
func (s *Store) Updates(ctx context.Context, issueID string, after int64, rows int32) ([]issues.Update, error) {
	list, err := db.New(s.db).ListUpdates(ctx, issueID, after, rows)
	if err != nil {
		return nil, database.Fail(err, "list updates")
	}
	out := make([]issues.Update, len(list))
	for i, row := range list {
		out[i] = updateOf(row.IssueUpdate)
	}
	return out, nil
}

// LastUpdates implements [issues.Store].
func (s *Store) LastUpdates(ctx context.Context, issueID string, rows int32) ([]issues.Update, error) {
	list, err := db.New(s.db).LastUpdates(ctx, issueID, rows)
	if err != nil {
		return nil, database.Fail(err, "list updates")
	}
	out := make([]issues.Update, len(list))
	for i, row := range list {
		out[len(list)-1-i] = updateOf(row.IssueUpdate)
	}
	return out, nil
}

// Todos implements [issues.Store].
func (s *Store) Todos(ctx context.Context, issueID string) ([]issues.Todo, error) {
	list, err := todos(ctx, db.New(s.db), issueID)
	return list, database.Fail(err, "list todos")
}

func todos(ctx context.Context, q *db.Queries, issueID string) ([]issues.Todo, error) {
	rows, err := q.ListTodos(ctx, issueID)
	if err != nil {
		return nil, err
	}
	out := make([]issues.Todo, len(rows))
	for i, row := range rows {
		out[i] = todoOf(row.IssueTodo)
	}
	return out, nil
}

// OpenTodos implements [issues.Store].
func (s *Store) OpenTodos(ctx context.Context, at issues.Ref) ([]issues.Todo, error) {
	rows, err := db.New(s.db).OpenTodos(ctx, at.Owner, at.ID, at.Number)
	if err != nil {
		return nil, database.Fail(err, "list open todos")
	}
	out := make([]issues.Todo, len(rows))
	for i, r := range rows {
		out[i] = issues.Todo{Content: r.Content, Status: issues.TodoStatus(r.Status), Kind: issues.TodoKind(r.Kind)}
	}
	return out, nil
}

// ChangeTodos implements [issues.Store].
func (s *Store) ChangeTodos(ctx context.Context, at issues.Ref, now int64,
	change func(issues.Issue, []issues.Todo) ([]issues.Todo,
		error),
) error {
	err := database.InTx(ctx, s.db, func(tx database.DB) error {
		i, err := lock(ctx, db.New(tx), at)
		if err != nil {
			return err
		}
		before, err := todos(ctx, db.New(tx), i.ID)
		if err != nil {
			return err
		}
		after, err := change(i, slices.Clone(before))
		if err != nil {
			return err
		}
		var p database.Pipeline
		q := db.New(&p)
		err = q.TouchIssue(ctx, max(now, i.UpdatedAt), i.ID)
		// The todo in progress is set back before another is started, because an index allows only one.
		for _, started := range []bool{false, true} {
			for k, t := range after {
				if (t.Status == issues.Working) == started && err == nil && (k >= len(before) || !reflect.DeepEqual(t, before[k])) {
					err = putTodo(ctx, q, i.ID, t, k >= len(before))
				}
			}
		}
		if err != nil {
			return err
		}
		return sendLast(ctx, &p, tx)
	})
	return stored(err, "change todos")
}

// sendLast sends the last statements of a transaction.
func sendLast(ctx context.Context, p *database.Pipeline, tx database.DB) error {
	err := p.Send(ctx, tx)
	crash.At(crash.IssueBeforeStore)
	return err
}

// stored returns the error of a finished transaction.
func stored(err error, what string) error {
	if err == nil {
		crash.At(crash.IssueStored)
	}
	return database.Fail(err, what)
}

func putTodo(ctx context.Context, q *db.Queries, issueID string, t issues.Todo, isNew bool) error {
	notes, err := database.JSON(t.Notes)
	if err != nil {
		return err
	}
	if !isNew {
		return q.ChangeTodo(ctx, db.ChangeTodoParams{
			ID: t.ID, Content: t.Content, Status: string(t.Status), Notes: notes, CompletedAt: t.CompletedAt,
			VerifiedAt: t.VerifiedAt, VerifiedBy: t.VerifiedBy,
		})
	}
	return q.AddTodo(ctx, db.AddTodoParams{
		ID: t.ID, IssueID: issueID, Position: int32(t.Position), Content: t.Content, Status: string(t.Status),
		Kind: string(t.Kind), Phase: t.Phase,
		Notes: notes, OriginAgent: t.OriginAgent, CreatedAt: t.CreatedAt, CompletedAt: t.CompletedAt,
		VerifiedAt: t.VerifiedAt, VerifiedBy: t.VerifiedBy,
	})
}

// List implements [issues.Store].
func (s *Store) List(ctx context.Context, f issues.Filter) ([]issues.Issue, error) {
	before := f.Before
	if before == 0 {
		before = math.MaxInt64
	}
	q, skip := db.New(s.db), int32(f.Skip)
	statuses := f.Statuses
	if statuses == nil {
		statuses = issues.NotEnded()
	}
	var out []issues.Issue
	var err error
	switch {
	case f.Query != "" && f.Parts:
		out, err = s.searchTitles(ctx, q, f, issues.Names(statuses), before)
	case f.Query != "":
		out, err = s.searchWords(ctx, q, f, issues.Names(statuses), before)
	case f.Statuses == nil:
		out, err = listed(q.ListOpen(ctx, db.ListOpenParams{
			OwnerUserID: f.Owner, ProjectID: f.Project.ID, Before: before,
			PageSize: f.Rows, Skip: skip,
		}))
	case all(f.Statuses):
		out, err = listed(q.ListAll(ctx, db.ListAllParams{
			OwnerUserID: f.Owner, ProjectID: f.Project.ID, Before: before, PageSize: f.Rows, Skip: skip,
		}))
	default:
		out, err = listed(q.ListByStatus(ctx, db.ListByStatusParams{
			OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: issues.Names(statuses), Before: before, PageSize: f.Rows,
			Skip: skip,
		}))
	}
	if err != nil {
		return nil, database.Fail(err, "list issues")
	}
	for i := range out {
		out[i].Owner = f.Owner
	}
	return out, nil
}

// all reports whether a list has every status.
func all(list []issues.Status) bool {
	return !slices.ContainsFunc(issues.Statuses(), func(s issues.Status) bool { return !slices.Contains(list, s) })
}

// amongRecent searches a project's newest issues, and twice as many if those fill most of a page. full is true if a
// page is full.
func (s *Store) amongRecent(page int32, search func(recent int32) ([]issues.Issue, error)) (out []issues.Issue,
	full bool,
	err error,
) {
	for _, recent := range []int32{s.recent, 2 * s.recent} {
		out, err = search(recent)
		if err != nil || len(out) == int(page) {
			return out, true, err
		}
		if 4*len(out) < 3*int(page) {
			break
		}
	}
	return nil, false, nil
}

// searchWords returns the page of a search for words.
func (s *Store) searchWords(ctx context.Context, q *db.Queries, f issues.Filter, statuses []string,
	before int64) ([]issues.Issue,
	error,
) {
	skip := int32(f.Skip)
	out, full, err := s.amongRecent(f.Rows, func(recent int32) ([]issues.Issue, error) {
		return listed(q.SearchRecentWords(ctx, db.SearchRecentWordsParams{
			Q: f.Query, OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: statuses, Before: before, Recent: recent,
			PageSize: f.Rows, Skip: skip,
		}))
	})
	if err != nil || full {
		return out, err
	}
	return listed(q.SearchWords(ctx, db.SearchWordsParams{
		Scope: "'" + scope(f.Project) + "'", Q: f.Query,
		OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: statuses, Before: before, PageSize: f.Rows, Skip: skip,
	}))
}

// searchTitles returns the page of a search for a part of titles.
func (s *Store) searchTitles(ctx context.Context, q *db.Queries, f issues.Filter, statuses []string,
	before int64,
) ([]issues.Issue, error) {
	pattern, skip := part(f.Query), int32(f.Skip)
	out, full, err := s.amongRecent(f.Rows, func(recent int32) ([]issues.Issue, error) {
		return listed(q.SearchRecentTitles(ctx, db.SearchRecentTitlesParams{
			Pattern: pattern, OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: statuses, Before: before,
			Recent: recent, PageSize: f.Rows, Skip: skip,
		}))
	})
	if err != nil || full {
		return out, err
	}
	return listed(q.SearchTitles(ctx, db.SearchTitlesParams{
		Pattern: pattern, OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: statuses, Before: before,
		PageSize: f.Rows, Skip: skip,
	}))
}

// Count implements [issues.Store].
func (s *Store) Count(ctx context.Context, f issues.Filter) (n int64, err error) {
	q, statuses := db.New(s.db), f.Statuses
	if statuses == nil {
		statuses = issues.NotEnded()
	}
	names := issues.Names(statuses)
	switch {
	case f.Query != "" && f.Parts:
		n, err = s.countTitles(ctx, q, f, names)
	case f.Query != "":
		n, err = s.countWords(ctx, q, f, names)
	default:
		n, err = q.CountByStatus(ctx, f.Owner, f.Project.ID, names, s.most)
	}
	return n, database.Fail(err, "count issues")
}

// enough counts among a project's newest issues, and among twice as many if many of those match. It reports whether the
// count has reached its limit.
func (s *Store) enough(count func(recent int32) (int64, error)) (bool, error) {
	for _, recent := range []int32{s.recent, 2 * s.recent} {
		n, err := count(recent)
		if err != nil || n >= int64(s.most) {
			return true, err
		}
		if 4*n < int64(s.most) {
			break
		}
	}
	return false, nil
}

func (s *Store) countWords(ctx context.Context, q *db.Queries, f issues.Filter, statuses []string) (int64, error) {
	enough, err := s.enough(func(recent int32) (int64, error) {
		return q.CountRecentWords(ctx, db.CountRecentWordsParams{
			OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: statuses, Recent: recent, Q: f.Query,
			Most: s.most,
		})
	})
	if enough || err != nil {
		return int64(s.most), err
	}
	return q.CountWords(ctx, db.CountWordsParams{
		Scope: "'" + scope(f.Project) + "'", Q: f.Query, OwnerUserID: f.Owner, ProjectID: f.Project.ID,
		Statuses: statuses, Most: s.most,
	})
}

func (s *Store) countTitles(ctx context.Context, q *db.Queries, f issues.Filter, statuses []string) (int64, error) {
	pattern := part(f.Query)
	enough, err := s.enough(func(recent int32) (int64, error) {
		return q.CountRecentTitles(ctx, db.CountRecentTitlesParams{
			OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: statuses, Recent: recent, Pattern: pattern,
			Most: s.most,
		})
	})
	if enough || err != nil {
		return int64(s.most), err
	}
	return q.CountTitles(ctx, db.CountTitlesParams{
		Pattern: pattern, OwnerUserID: f.Owner, ProjectID: f.Project.ID, Statuses: statuses, Most: s.most,
	})
}

// Changed returns at most rows issues that changed between two times, the latest ones, and whether each was created
// then. It reads the whole table, because an index by the time of change would be written at each comment.
func (s *Store) Changed(ctx context.Context, since, until int64, rows int32) (map[issues.Ref]bool, error) {
	list, err := db.New(s.db).ChangedBetween(ctx, since, until, rows)
	if err != nil {
		return nil, database.Fail(err, "list changed issues")
	}
	out := make(map[issues.Ref]bool, len(list))
	for _, r := range list {
		project := issues.Project{Owner: r.OwnerUserID, ID: r.ProjectID}
		out[issues.Ref{Project: project, Number: r.Number}] = r.CreatedAt >= since
	}
	return out, nil
}

// part returns the pattern of a text as a part of another text.
func part(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

var _ issues.Store = (*Store)(nil)
