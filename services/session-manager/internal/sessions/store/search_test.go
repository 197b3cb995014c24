package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store"
)

// say stores messages of a session and indexes all stored texts.
func say(t testing.TB, s *store.Sessions, pool *pgxpool.Pool, session string, texts ...string) (ids []string) {
	t.Helper()
	for i, content := range texts {
		ids = append(ids, ident.New())
		_, err := pool.Exec(t.Context(), `insert into messages (id, session_id, ordinal, role, content, created_at)
			values ($1, $2, $3, 'operator', $4, 1)`, ids[i], session, i+1, content)
		if err != nil {
			t.Fatal(err)
		}
	}
	fill(t, s)
	return ids
}

func fill(t testing.TB, s *store.Sessions) {
	t.Helper()
	for {
		n, err := s.FillWords(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if n < 100 {
			return
		}
	}
}

// A search finds a text by the beginnings of its words, across any separators, but only in its first 200 KiB. A
// text with very many different words does not block the indexing of others.
func TestSearchOfTexts(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	var hostile strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&hostile, "%c%c ", 0x4e00+i%20_000, 0x3400+i/20_000)
	}
	one := addOne(t, s, func(n *record.Session) { n.Label = "Größe of things"; n.CreatedAt = 1 })
	two := addOne(t, s, func(n *record.Session) { n.CreatedAt = 2 })
	three := addOne(t, s, func(n *record.Session) { n.CreatedAt = 3 })
	ids := say(t, s, pool, one.ID, "Rename pkg/cage/view.go to sight.go",
		"<b>List</b><String> it's 'quoted' \\ back & | ! <-> x:*y")
	late := say(t, s, pool, two.ID, strings.Repeat("a ", 100<<10)+"beyond", strings.Repeat("ö", 102_400)+"ö tail")
	say(t, s, pool, three.ID, hostile.String(), "Rename nothing")
	for q, want := range map[string]string{
		"rename":         three.ID + " " + one.ID,
		"RENA view":      one.ID + ":" + ids[0],
		"cage/view.go":   one.ID + ":" + ids[0],
		"ename":          "",
		"rename things":  "", // one text must have all words
		"thing":          one.ID + ":",
		"Größe":          one.ID + ":",
		"list string":    one.ID + ":" + ids[1],
		"it s quoted x":  one.ID + ":" + ids[1],
		"a":              two.ID + ":" + late[0],
		"beyond":         "",
		"tail":           "",
		"\U00004e00㐀":    three.ID,
		"nothing rename": three.ID,
	} {
		found, err := s.Search(t.Context(), "ada", "", strings.FieldsFunc(q, func(r rune) bool {
			return strings.ContainsRune(" /.", r)
		}), nil, 10)
		if err != nil {
			t.Errorf("%q: %v", q, err)
		}
		var got []string
		for _, f := range found {
			if strings.Contains(want, ":") {
				got = append(got, f.ID+":"+f.Message)
			} else {
				got = append(got, f.ID)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %q", q, got, want)
		}
	}
	if found, err := s.Search(t.Context(), "eve", "", []string{"rename"}, nil, 10); err != nil || len(found) != 0 {
		t.Errorf("another operator finds %v, %v", found, err)
	}
	if found, err := s.Search(t.Context(), "ada", "elsewhere", []string{"rename"}, nil, 10); err != nil ||
		len(found) != 0 {
		t.Errorf("another project has %v, %v", found, err)
	}
	for _, word := range []string{`'`, `\`, `\'`, `a'b`, `:*`, "!", "&", "\u2014", "\u202e"} {
		if _, err := s.Search(t.Context(), "ada", "", []string{word}, nil, 10); err != nil {
			t.Errorf("the word %q: %v", word, err)
		}
	}
}

// Each sign of ASCII that is neither a letter nor a digit parts words, and no other character does but those by which
// Postgres parts them.
func TestSignsPartWords(t *testing.T) {
	t.Parallel()
	_, pool := kept(t)
	const signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	for r := rune(1); r < 0x250; r++ {
		text := "left" + string(r) + "right" + string(r) + string(r) + "12" + string(r) + "é"
		spaced := text
		if strings.ContainsRune(signs, r) {
			spaced = strings.ReplaceAll(text, string(r), " ")
		}
		var got, want string
		if err := pool.QueryRow(t.Context(), "select words_of($1)::text, to_tsvector('simple', $2)::text", text, spaced).
			Scan(&got, &want); err != nil || got != want {
			t.Errorf("%q: got %s, want %s, %v", text, got, want, err)
		}
	}
}

// A renamed session is found by its new name only.
func TestSearchOfNames(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	one := addOne(t, s, func(n *record.Session) { n.Label = "alpha" })
	fill(t, s)
	if _, err := pool.Exec(t.Context(), "update sessions set label = 'beta' where id = $1", one.ID); err != nil {
		t.Fatal(err)
	}
	fill(t, s)
	for word, want := range map[string]int{"alpha": 0, "beta": 1} {
		if found, err := s.Search(t.Context(), "ada", "", []string{word}, nil, 10); err != nil || len(found) != want {
			t.Errorf("%q: %v, %v", word, found, err)
		}
	}
}

// The pages of a search and of a list contain every session once, newest first.
func TestSearchPages(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	var want []string
	for i := range 25 {
		n := addOne(t, s, func(n *record.Session) { n.CreatedAt = int64(i / 2) })
		say(t, s, pool, n.ID, "common one", "common two")
		want = append(want, n.ID)
	}
	for _, words := range [][]string{nil, {"common"}} {
		var got []string
		var after *page.Key
		for {
			found, err := s.Search(t.Context(), "ada", "", words, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				got = append(got, f.ID)
			}
			if len(found) < 7 {
				break
			}
			last := found[len(found)-1]
			after = &page.Key{N: last.CreatedAt, S: last.ID}
		}
		if !slices.Equal(slices.Compact(slices.Clone(got)), got) || len(got) != len(want) {
			t.Errorf("%v: %d sessions, want %d", words, len(got), len(want))
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%v: the pages have other sessions", words)
		}
	}
}

// BenchmarkSearch reads pages of 50 among 100,000 sessions, each with a name and a message: pages of the list, and
// searches for a word in all of them, in one of a hundred, and in one. It reports the 99th percentile of the time.
func BenchmarkSearch(b *testing.B) {
	const many = 100_000
	owner, app := pgtest.URLs(b)
	pool, err := postgres.Open(b.Context(), postgres.Config{OwnerURL: owner, URL: app}, migrations.Files,
		migrations.Schema)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	s := store.NewSessions(pool)
	_, err = pool.Exec(b.Context(), `
		with made as (
			insert into sessions (id, owner_user_id, project_id, label, compiled_hash, project_path, created_by,
			  created_at, updated_at)
			select 'S' || to_char(i, 'FM000000'), 'ada', 'music', 'name ' || i, 'h', '/p', 'ada', i, i
			from generate_series(1, $1::int) i
			returning id, created_at)
		insert into messages (id, session_id, ordinal, role, content, created_at)
		select 'M' || id, id, 1, 'operator', 'everybody says this and ' ||
		  case when created_at % 100 = 0 then 'seldom ' else '' end
			|| repeat(md5(id) || ' ', 30) || case when created_at = 777 then 'unique' else '' end, created_at from made`, many)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, s)
	tables, err := pgx.Connect(b.Context(), owner) // only the owner of the tables may analyze them
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tables.Close(context.WithoutCancel(b.Context())) }()
	if _, err := tables.Exec(b.Context(), "analyze"); err != nil {
		b.Fatal(err)
	}
	for name, words := range map[string][]string{
		"list": nil, "all": {"everybody"}, "hundredth": {"seldom"}, "one": {"unique"}, "none": {"absent"},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				at := &page.Key{N: int64(i*7919%many) + 1}
				if len(words) > 0 && words[0] == "unique" {
					at = nil
				}
				begin := time.Now()
				if _, err := s.Search(context.WithoutCancel(b.Context()), "ada", "", words, at, 51); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
