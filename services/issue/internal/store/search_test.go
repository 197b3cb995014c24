package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/issue/internal/core/issues"
	"kaged.dev/services/issue/internal/database/migrations"
)

// A search returns the same issues in the same order whether its pages come from the newest issues, from the index of
// words, or from both in turn. Other projects and operators are excluded. The count is the same, up to its limit.
func TestSearchLooksAtTheNewestFirst(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	opened, err := postgres.Open(t.Context(), postgres.Config{OwnerURL: owner, URL: app}, migrations.Files, "issue")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	pool := new(database.Pool)
	pool.Open(opened)
	s := New(pool)
	mine := issues.Project{Owner: "ada", ID: "music"}
	for i := range 60 {
		words := []string{"every"}
		if i%2 == 0 {
			words = append(words, "second")
		}
		if i < 10 {
			words = append(words, "early")
		}
		status := issues.Statuses()[i%len(issues.Statuses())]
		for _, p := range []issues.Project{mine, {Owner: "ada", ID: "noise"}, {Owner: "eve", ID: "music"}} {
			_, _, err := s.Create(t.Context(), issues.Issue{
				ID: ident.New(), Project: p, Title: fmt.Sprint("issue ", i), Body: strings.Join(words, " "), Status: status,
				CreatedBy: p.Owner,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, query := range []string{
		"every", "second", "early", "second -early", "early or second",
		`"issue 7"`, "missing", "sue 1+",
	} {
		for _, statuses := range [][]issues.Status{issues.Statuses(), nil} {
			text, parts := strings.CutSuffix(query, "+")
			f := issues.Filter{Project: mine, Query: text, Parts: parts, Statuses: statuses, Rows: 1000}
			s.recent = 1
			want, err := s.List(t.Context(), f)
			if err != nil || query != "missing" && len(want) == 0 {
				t.Fatalf("%s: %d issues, %v", query, len(want), err)
			}
			for _, window := range []int32{1, 5, 12, 1000} {
				s.recent = window
				if got := paged(t, s, f); !slices.Equal(got, numbers(want)) {
					t.Errorf("%s, the newest %d: got %v, want %v", query, window, got, numbers(want))
				}
				for _, s.most = range []int32{1, 4, 20, 1000} {
					if n, err := s.Count(t.Context(), f); err != nil || n != int64(min(len(want), int(s.most))) {
						t.Errorf("%s, the newest %d: counted %d up to %d, %v, want %d", query, window, n, s.most, err, len(want))
					}
				}
			}
		}
	}
}

// paged returns the numbers of all issues of a list, read in pages of seven.
func paged(t *testing.T, s *Store, f issues.Filter) []int64 {
	t.Helper()
	f.Rows = 7
	var all []int64
	for {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, numbers(page)...)
		if len(page) < int(f.Rows) {
			return all
		}
		f.Before = page[len(page)-1].Number
	}
}

func numbers(list []issues.Issue) []int64 {
	out := make([]int64, len(list))
	for i := range list {
		out[i] = list[i].Number
	}
	return out
}
