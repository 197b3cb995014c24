package store

import (
	"encoding/json"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/issue/internal/core/issues"
	"kaged.dev/services/issue/internal/store/db"
)

//convert:one issueOf db.FindIssueRow issues.Issue OwnerUserID=Project.Owner ProjectID=Project.ID >ClientID=-
//convert:one summaryOf db.ListOpenRow issues.Issue ProjectID=Project.ID >Project.Owner=- >Body=- >OriginalBody=-
//convert:with >ImportedFrom=- >ClientID=- >ContentHash=-
//convert:one readUpdate db.IssueUpdate issues.Update >Metadata=-
//convert:one readTodo db.IssueTodo issues.Todo >Notes=-

// row is a row of any list.
type row interface {
	db.ListOpenRow | db.ListAllRow | db.ListByStatusRow | db.SearchRecentWordsRow | db.SearchWordsRow |
		db.SearchRecentTitlesRow | db.SearchTitlesRow
}

// listed converts the rows of a list to issues.
func listed[R row](rows []R, err error) ([]issues.Issue, error) {
	if err != nil {
		return nil, err
	}
	out := make([]issues.Issue, len(rows))
	for i := range rows {
		out[i] = summaryOf(db.ListOpenRow(rows[i]))
	}
	return out, nil
}

func updateOf(r db.IssueUpdate) issues.Update {
	u := readUpdate(r)
	if json.Unmarshal(r.Metadata, &u.Metadata) != nil {
		u.Metadata = map[string]any{"unreadable": database.Unreadable("What this update changed")}
	}
	return u
}

func todoOf(r db.IssueTodo) issues.Todo {
	t := readTodo(r)
	if json.Unmarshal(r.Notes, &t.Notes) != nil {
		t.Notes = []issues.Note{{Text: database.Unreadable("The notes of this todo")}}
	}
	return t
}
