package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	timedCalls  = 3000
	manyCalls   = 100_000
	warmCalls   = 20_000 // until every limited store is full
	callWorkers = 4
	projectSize = 50
)

// measureCalls measures the overhead of one call beyond its tool, and the memory used after many calls.
func measureCalls(ctx context.Context, w *world) ([]Figure, error) {
	project := filepath.Join(w.dir, "calls")
	for i := range projectSize {
		path := filepath.Join(project, "src", fmt.Sprintf("f%02d.txt", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("some line of text\n", 40)), 0o644); err != nil {
			return nil, err
		}
	}
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) {
		figures, err := r.overhead(ctx, project)
		if err != nil {
			return nil, err
		}
		flat, err := r.flat(ctx, project)
		return append(figures, flat...), err
	})
}

// overhead measures calls that pass the whole dispatcher: names resolved, parameters validated, paths resolved,
// permission, lock, audit records. The first is an edit of a missing file, for which the tool itself has very little
// work. The dispatcher's part is the difference to the same message refused at the server's entry, measured
// alternately. The other floors are empty calls over the same socket; the difference to them is mostly the stream and
// its larger messages.
func (r *runner) overhead(ctx context.Context, project string) ([]Figure, error) {
	edit := map[string]any{"path": "src/none.txt", "old_string": "a", "new_string": "b"}
	var empty, refused, dispatched []time.Duration
	for range timedCalls {
		for _, c := range []struct {
			took *[]time.Duration
			call func() error
		}{
			{&empty, func() error { return r.ping(ctx) }},
			{&refused, func() error { return r.knock(ctx, "timed", project, "edit.text", edit) }},
			{&dispatched, func() error {
				if _, err := r.call(ctx, "timed", project, "edit.text", edit); err == nil {
					return errors.New("a file that is not there was edited")
				}
				return nil
			}},
		} {
			begun := time.Now()
			if err := c.call(); err != nil {
				return nil, err
			}
			*c.took = append(*c.took, time.Since(begun))
		}
	}
	floor, door, whole := us(percentile(empty, 50)), us(percentile(refused, 50)), us(percentile(dispatched, 50))
	figures := []Figure{
		{Name: "calls/dispatch", Value: whole - door, Unit: "us", Floor: door, Target: 100},
		{Name: "calls/edit.text", Value: whole, Unit: "us", Floor: floor},
	}
	for _, c := range []struct {
		tool   string
		params map[string]any
	}{
		{"file.read", map[string]any{"path": "src/f01.txt"}},
		{"search.glob", map[string]any{"pattern": "**/f0*"}},
		{"search.grep", map[string]any{"pattern": "nothing like it"}},
	} {
		var took []time.Duration
		for range timedCalls {
			begun := time.Now()
			if _, err := r.call(ctx, "timed", project, c.tool, c.params); err != nil {
				return nil, fmt.Errorf("%s: %w", c.tool, err)
			}
			took = append(took, time.Since(begun))
		}
		figures = append(figures, Figure{
			Name: "calls/" + c.tool, Value: us(percentile(took, 50)), Spread: spread(took), Unit: "us", Floor: floor,
		})
	}
	return figures, nil
}

// flat runs many calls of all kinds in some sessions that do not end, and compares the memory at the beginning and at
// the end.
func (r *runner) flat(ctx context.Context, project string) ([]Figure, error) {
	if err := r.many(ctx, project, warmCalls); err != nil {
		return nil, err
	}
	before, err := r.memory("VmRSS")
	if err != nil {
		return nil, err
	}
	if err := r.many(ctx, project, manyCalls); err != nil {
		return nil, err
	}
	after, err := r.memory("VmRSS")
	if err != nil {
		return nil, err
	}
	return []Figure{{Name: "calls/memory", Value: mb(after), Unit: "MB", Floor: mb(before), Target: mb(before) * 1.1}}, nil
}

func (r *runner) many(ctx context.Context, project string, calls int) error {
	group, gctx := errgroup.WithContext(ctx)
	for worker := range callWorkers {
		session := fmt.Sprintf("s%d", worker)
		own := fmt.Sprintf("src/own%d.txt", worker)
		group.Go(func() error {
			for i := range calls / callWorkers {
				var err error
				switch i % 8 {
				case 0:
					_, err = r.call(gctx, session, project, "file.write", map[string]any{
						"path": own, "content": fmt.Sprintf("one\n%d\n", i),
					})
				case 1:
					_, err = r.call(gctx, session, project, "edit.text", map[string]any{
						"path": own, "old_string": "one", "new_string": "two",
					})
				case 2:
					_, err = r.call(gctx, session, project, "search.grep", map[string]any{"pattern": "line of", "head_limit": 5})
				case 3:
					_, err = r.call(gctx, session, project, "search.glob", map[string]any{"pattern": "**/*.txt"})
				case 4:
					_, err = r.call(gctx, session, project, "file.list", map[string]any{"path": "src"})
				default:
					_, err = r.call(gctx, session, project, "file.read", map[string]any{
						"path": fmt.Sprintf("src/f%02d.txt", i%projectSize),
					})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func mb(n int64) float64         { return float64(n) / 1e6 }
