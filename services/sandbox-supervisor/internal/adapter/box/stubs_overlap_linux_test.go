package box

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"kaged.dev/pkg/cage"
)

// Cages of one project that begin and end at the same time leave no stub and no journal.
func TestStubsOfOverlappingCages(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	s := stubs{dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	grants := []cage.Grant{
		{Path: filepath.Join(project, ".git"), Dir: true, Protected: true, Missing: true},
		{Path: filepath.Join(project, ".envrc"), Protected: true, Missing: true, Stub: "# kept out\n"},
	}
	var cages sync.WaitGroup
	for lane := range 4 {
		cages.Go(func() {
			for i := range 500 {
				h, _, err := s.hold(fmt.Sprint("cage", lane, "-", i), grants)
				if err != nil {
					t.Error(err)
					return
				}
				h.release()
			}
		})
	}
	cages.Wait()
	for _, dir := range []string{project, s.dir} {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("got %v, %v in %s, want nothing left", left, err, filepath.Base(dir))
		}
	}
}
