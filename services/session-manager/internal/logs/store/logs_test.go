package store_test

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/logs/core/logs"
	"kaged.dev/services/session-manager/internal/logs/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

// Entries are stored once, also hostile ones, and are removed if they are too old or too many.
func TestKeeping(t *testing.T) {
	t.Parallel()
	pool := storetest.Open(t)
	kept := store.New(pool)
	var list []logs.Entry
	for i := range 30 {
		list = append(list, logs.Entry{
			ID: fmt.Sprintf("%02d", i), TS: int64(i), Level: slog.LevelInfo, Source: logs.Daemon, Owner: "ada",
			ProjectID: []string{"a", "b", "b"}[i%3], Message: "m\x00\xff", Context: map[string]any{
				"deep": strings.Repeat("x", 100_000), "\x00": "\xff",
			},
		})
	}
	list = append(list, logs.Entry{ID: "no owner", Source: logs.Daemon, ProjectID: "a"})
	for _, want := range []int{30, 0} {
		if got, err := kept.Append(t.Context(), list); err != nil || len(got) != want {
			t.Fatalf("%d stored, %v, want %d", len(got), err, want)
		}
	}
	count := func(project string) int {
		got, err := kept.Query(t.Context(), logs.Query{
			Owner: "ada", ProjectID: project, Before: page.Key{N: math.MaxInt64}, Limit: 100, Level: slog.LevelDebug,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got {
			if len(fmt.Sprint(e.Context)) > 9<<10 || e.Message != "m\uFFFD\uFFFD" {
				t.Errorf("stored is %d bytes of context, message %q", len(fmt.Sprint(e.Context)), e.Message)
			}
		}
		return len(got)
	}
	for _, c := range []struct {
		before  int64
		kept    int
		a, b    int
		because string
	}{{0, 100, 10, 20, "nothing is old"}, {3, 100, 9, 18, "three are old"}, {3, 7, 7, 7, "seven are kept of each"}} {
		if err := kept.Trim(t.Context(), c.before, c.kept); err != nil {
			t.Fatal(err)
		}
		if a, b := count("a"), count("b"); a != c.a || b != c.b {
			t.Errorf("%s: %d and %d are left, want %d and %d", c.because, a, b, c.a, c.b)
		}
	}
}
