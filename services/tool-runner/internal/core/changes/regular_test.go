package changes_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe in the place of any file of a repository, which an agent can make while its cage may write there, is not
// waited for.
func TestPipesInARepository(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, head string }{
		{"HEAD", ""},
		{"refs/heads/main", "ref: refs/heads/main\n"},
		{"packed-refs", "ref: refs/heads/gone\n"},
		{"objects/aa/" + strings.Repeat("a", 38), strings.Repeat("a", 40) + "\n"},
		{"objects/info/alternates", strings.Repeat("b", 40) + "\n"},
		{"objects/pack/pack-" + strings.Repeat("c", 40) + ".idx", strings.Repeat("b", 40) + "\n"},
		{"objects/pack/pack-" + strings.Repeat("c", 40) + ".pack", strings.Repeat("b", 40) + "\n"},
		{"index", strings.Repeat("b", 40) + "\n"},
		{"config", strings.Repeat("b", 40) + "\n"},
	} {
		t.Run(filepath.Base(c.name), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.git("init", "-q")
			git := filepath.Join(p.root, ".git")
			pipe := filepath.Join(git, c.name)
			err := errors.Join(os.WriteFile(filepath.Join(git, "HEAD"), []byte(c.head), 0o600),
				os.MkdirAll(filepath.Dir(pipe), 0o700), os.RemoveAll(pipe), unix.Mkfifo(pipe, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			p.write("new", "x\n")
			if _, found := p.list(); found.Head != "" {
				t.Errorf("the head is %q", found.Head)
			}
		})
	}
}
