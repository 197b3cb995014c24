package bench

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/ident"
)

// The size of the tracker: a million issues in a hundred projects that grew at the same time.
const (
	issueProjects    = 100
	issuesInProject  = 10_000
	issueWordsNumber = 2000
	issueBatch       = 50_000
)

func issueProject(i int) string { return fmt.Sprintf("project-%02d", i%issueProjects) }

// issueScope returns the word that the issues of a project have in their index.
func issueScope(project string) string {
	sum := md5.Sum([]byte(issueOwner + "\x00" + project))
	return "P" + hex.EncodeToString(sum[:])
}

func contentHash(title, body string) []byte {
	sum := sha256.Sum256([]byte(title + "\x00" + body))
	return sum[:]
}

func ignoreClosed(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	return err
}

// issueWords returns different words, the frequent ones first; only the first hundred or so are words of a language.
func issueWords() []string {
	list := append([]string{}, noteServices...)
	list = append(list, notePlaces...)
	known := map[string]bool{}
	for _, w := range list {
		known[w] = true
	}
	random := rand.New(rand.NewPCG(5, 5))
	for len(list) < issueWordsNumber {
		var b strings.Builder
		for range 2 + random.IntN(3) {
			b.WriteByte("bcdfgklmnprstv"[random.IntN(14)])
			b.WriteByte("aeiou"[random.IntN(5)])
		}
		if w := b.String(); !known[w] {
			known[w] = true
			list = append(list, w)
		}
	}
	return list
}

// issueTexts generates titles and bodies with the word frequencies of a language.
type issueTexts struct {
	words []string
	zipf  *rand.Zipf
	n     *rand.Rand
}

func newIssueTexts(seed uint64) *issueTexts {
	random := rand.New(rand.NewPCG(seed, seed))
	return &issueTexts{issueWords(), rand.NewZipf(random, 1.1, 4, issueWordsNumber-1), random}
}

func (t *issueTexts) some(least, most int) string {
	var b strings.Builder
	for i := range least + t.n.IntN(most-least) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.words[t.zipf.Uint64()])
	}
	return b.String()
}

func (t *issueTexts) title() string { return t.some(3, 9) }
func (t *issueTexts) body() string  { return t.some(12, 40) }

// issueStatuses are the statuses of ten issues in a row.
var issueStatuses = strings.Fields(
	"resolved resolved open resolved rejected triaged resolved in_progress assigned resolved",
)

// fillIssues fills the tables like the service: the rows of the projects alternate, as if the projects grew over years.
// It creates the indexes of words at the end, which takes a fraction of the time.
func fillIssues(ctx context.Context, ownerURL string) error {
	config, err := pgx.ParseConfig(ownerURL)
	if err != nil {
		return err
	}
	config.RuntimeParams["search_path"] = "issue"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var indexes []string
	rows, err := conn.Query(ctx,
		"select indexdef from pg_indexes where schemaname = 'issue' and indexname in ('issues_words', 'issues_titles')")
	if err == nil {
		indexes, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"set synchronous_commit = off", "set maintenance_work_mem = '512MB'",
		"drop index if exists issues_words, issues_titles",
		`create unlogged table filling (id text, project_id text, number bigint, title text, body text,
			status text, scope text)`,
		fmt.Sprintf(`insert into counters select '%s', 'project-' || lpad(i::text, 2, '0'), %d from generate_series(0, %d) i`,
			issueOwner, issuesInProject, issueProjects-1),
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	texts := newIssueTexts(7)
	for from := 0; from < issueProjects*issuesInProject; from += issueBatch {
		if err := fillBatch(ctx, conn, texts, from); err != nil {
			return err
		}
	}
	for _, statement := range append(indexes, "drop table filling", "vacuum analyze issues", "checkpoint") {
		if _, err := conn.Exec(ctx, statement); err != nil && statement != "checkpoint" {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func fillBatch(ctx context.Context, conn *pgx.Conn, texts *issueTexts, from int) error {
	at := from
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"filling"}, []string{
		"id", "project_id", "number", "title", "body",
		"status", "scope",
	},
		pgx.CopyFromFunc(func() ([]any, error) {
			if at == from+issueBatch {
				return nil, nil
			}
			project, number := issueProject(at), at/issueProjects+1
			at++
			status := issueStatuses[texts.n.IntN(len(issueStatuses))]
			return []any{ident.New(), project, int64(number), texts.title(), texts.body(), status, issueScope(project)}, nil
		}))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `insert into issues (id, owner_user_id, project_id, number, title, body, status, created_by,
			created_at, updated_at, words, folded_title)
		select id, $1, project_id, number, title, body, status, $1, number, number,
			to_tsvector('simple', title || E'\n' || body) || array_to_tsvector(array[scope]), title from filling`, issueOwner)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "truncate filling")
	return err
}
