package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/postgres/embedded"
)

// The lists: 100,000 sessions of one project, in pages of the default size and of the largest one.
const (
	listedSessions = 100_000
	defaultPage    = 50
	largestPage    = 200
)

// measureList measures each page of lists of 100,000 sessions.
func measureList(ctx context.Context, w *world, h *apiHost) ([]Figure, error) {
	var figures []Figure
	for _, ask := range []struct {
		name, path string
		limit      int
		target     float64
	}{
		{"api/list/all/page-p99", "/api/v1/sessions", defaultPage, 20},
		{"api/list/of-project/page-p99", "/api/v1/projects/bench/sessions", defaultPage, 20},
		{"api/list/all/page-of-200-p99", "/api/v1/sessions", largestPage, 20},
	} {
		took, items, err := h.pages(ctx, ask.path, ask.limit)
		if err != nil {
			return figures, err
		}
		if items < listedSessions {
			return figures, fmt.Errorf("the list %s has %d sessions", ask.path, items)
		}
		count := len(took)
		figures = append(figures, Figure{
			Name: ask.name, Value: ms(percentile(took, 99)), Unit: "ms", Spread: spread(took), Target: ask.target,
			Floor: ms(percentile(took, 50)),
			Note:  fmt.Sprintf("%d pages; the floor is their median", count),
		})
	}
	return figures, nil
}

// pages reads a list to its end and returns the time of each page and the number of its sessions.
func (h *apiHost) pages(ctx context.Context, path string, limit int) (took []time.Duration, items int, err error) {
	for cursor := ""; ; {
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		req, err := h.get(ctx, path+"?"+query.Encode())
		if err != nil {
			return nil, 0, err
		}
		begun := time.Now()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, 0, err
		}
		data, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		took = append(took, time.Since(begun))
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil, 0, fmt.Errorf("a page was answered with %s: %w", resp.Status, err)
		}
		var page struct {
			Items      []json.RawMessage
			NextCursor *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return nil, 0, err
		}
		items += len(page.Items)
		if page.NextCursor == nil {
			return took, items, nil
		}
		cursor = *page.NextCursor
	}
}

// fillSessions copies a session of the data directory, each time with an id and a time of its own. The daemon is not
// running.
func fillSessions(ctx context.Context, w *world, dir string) (err error) {
	database, err := embedded.Start(ctx, embedded.Options{DataDir: dataDir(dir)})
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		err = errors.Join(err, database.Stop(bounded))
	}()
	begun := time.Now()
	conn, err := pgx.Connect(ctx, database.OwnerURL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `SELECT column_name::text FROM information_schema.columns
		WHERE table_schema = 'session_manager' AND table_name = 'sessions' AND is_generated = 'NEVER'
		ORDER BY ordinal_position`)
	if err != nil {
		return err
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	values := make([]string, len(columns))
	for i, c := range columns {
		columns[i] = pgx.Identifier{c}.Sanitize()
		switch c {
		case "id": // 26 characters, as those of a ULID
			values[i] = `'01H' || lpad(n::text, 23, '0')`
		case "label": // as long as those that people give
			values[i] = `'Repair the flaky test number ' || n`
		case "created_at", "updated_at":
			values[i] = columns[i] + ` - 1000 * n`
		default:
			values[i] = columns[i]
		}
	}
	// Without search words: they would be filled in beside the measurement.
	if _, err := conn.Exec(ctx, `SET search_path = session_manager`); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`INSERT INTO session_manager.sessions (%s)
		SELECT %s FROM (SELECT * FROM session_manager.sessions ORDER BY created_at LIMIT 1) s,
		generate_series(1, %d) AS n`, strings.Join(columns, ", "), strings.Join(values, ", "), listedSessions))
	if err != nil {
		return err
	}
	if _, err = conn.Exec(ctx, `DELETE FROM words_to_fill; ANALYZE sessions`); err != nil {
		return err
	}
	fmt.Fprintf(w.progress, "bench: api: %d sessions filled in %s\n", listedSessions,
		time.Since(begun).Round(time.Second))
	return nil
}
