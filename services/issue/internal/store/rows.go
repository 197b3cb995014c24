package store

import (
	"encoding/json"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/issue/internal/core/issues"
	"kaged.dev/services/issue/internal/store/db"
)

func issueOf(r db.FindIssueRow) issues.Issue {
	i := issues.Issue{
		ID: r.ID, Project: issues.Project{Owner: r.OwnerUserID, ID: r.ProjectID}, Number: r.Number, Title: r.Title,
		Body:         r.Body,
		OriginalBody: r.OriginalBody, Status: issues.Status(r.Status), Assignment: r.Assignment, CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ResolvedAt: r.ResolvedAt, ResolvedBy: r.ResolvedBy,
		Version:     r.Version,
		ContentHash: r.ContentHash,
	}
	if r.ImportedFrom != nil {
		i.ImportedFrom = *r.ImportedFrom
	}
	return i
}

// row is a row of any list.
type row interface {
	db.ListOpenRow | db.ListAllRow | db.ListByStatusRow | db.SearchRecentWordsRow | db.SearchWordsRow |
		db.SearchRecentTitlesRow | db.SearchTitlesRow
}

// listed turns the rows of a list into issues.
func listed[R row](rows []R, err error) ([]issues.Issue, error) {
	if err != nil {
		return nil, err
	}
	out := make([]issues.Issue, len(rows))
	for i := range rows {
		r := db.ListOpenRow(rows[i])
		out[i] = issues.Issue{
			ID: r.ID, Project: issues.Project{ID: r.ProjectID}, Number: r.Number, Title: r.Title,
			Status:     issues.Status(r.Status),
			Assignment: r.Assignment, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
			ResolvedAt: r.ResolvedAt, ResolvedBy: r.ResolvedBy, Version: r.Version,
		}
	}
	return out, nil
}

func updateOf(r db.IssueUpdate) issues.Update {
	u := issues.Update{
		Seq: r.Seq, ID: r.ID, Author: r.Author, Kind: issues.Kind(r.Kind), Body: r.Body,
		Visibility: issues.Visibility(r.Visibility),
		CreatedAt:  r.CreatedAt,
	}
	if json.Unmarshal(r.Metadata, &u.Metadata) != nil {
		u.Metadata = map[string]any{"unreadable": database.Unreadable("What this update changed")}
	}
	return u
}

func todoOf(r db.IssueTodo) issues.Todo {
	t := issues.Todo{
		ID: r.ID, Position: int(r.Position), Content: r.Content, Status: issues.TodoStatus(r.Status),
		Kind:  issues.TodoKind(r.Kind),
		Phase: r.Phase, OriginAgent: r.OriginAgent, CreatedAt: r.CreatedAt, CompletedAt: r.CompletedAt,
		VerifiedAt: r.VerifiedAt, VerifiedBy: r.VerifiedBy,
	}
	if json.Unmarshal(r.Notes, &t.Notes) != nil {
		t.Notes = []issues.Note{{Text: database.Unreadable("The notes of this todo")}}
	}
	return t
}
