package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// grown reads the folders even if their file system did not grow.
func grown(m *Meter, held ...int) int64 {
	m.read, m.took = time.Time{}, 0
	return m.Growth(1<<40, func() []int { return held })
}

func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
}

// near compares a growth with the written bytes, because file systems add a few blocks.
func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got < want || got > want+want/10+4*PerFile {
		t.Errorf("%s: it has grown by %d, want %d", what, got, want)
	}
}

// New files count and old ones do not, even if they grow: files by their blocks without holes, several names once, each
// file at least for its inode, and removed files while they are open.
func TestGrowth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/old", 1<<20)
	write(t, dir+"/older", 1<<20)
	m := New(time.Now(), []string{dir}, nil, nil)
	near(t, "nothing", grown(m), 0)
	write(t, dir+"/old", 3<<20)
	near(t, "an old file", grown(m), 2<<20)
	if err := os.Remove(dir + "/older"); err != nil {
		t.Fatal(err)
	}
	near(t, "another removed", grown(m), 1<<20-PerFile)

	if err := os.Mkdir(dir+"/new", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := os.Link(dir+"/old", fmt.Sprint(dir, "/new/", i)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(dir + "/new/sparse")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	before := grown(m)
	near(t, "names and holes", before, 1<<20-PerFile)
	for i := range 500 {
		write(t, fmt.Sprint(dir, "/new/empty", i), 0)
	}
	near(t, "empty files", grown(m)-before, 500*PerFile)

	before = grown(m)
	if _, err := f.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/new/sparse"); err != nil {
		t.Fatal(err)
	}
	near(t, "a removed file that is open", grown(m, os.Getpid())-before, 4<<20-PerFile)
	if unseen := grown(m); unseen > before {
		t.Errorf("somebody else's removed file counts: %d after %d", unseen, before)
	}
}

// Files written during the first reading do not belong to the beginning, old files changed during it do, and a folder
// marked full counts with all its content.
func TestBeginning(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	write(t, dir+"/old", 1<<20)
	write(t, kept+"/kept", 1<<20)
	since := time.Now()
	// Times in file systems are those of the clock's last tick.
	for began := time.Now(); ; {
		write(t, dir+"/new", 2<<20)
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, dir+"/new", 0, unix.STATX_BTIME, &st); err != nil ||
			st.Mask&unix.STATX_BTIME == 0 {
			t.Logf("this file system does not know when a file was made: %v", err)
			return
		}
		if !time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).Before(since) || time.Since(began) > time.Minute {
			break
		}
		if err := os.Remove(dir + "/new"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/old", 0o600); err != nil {
		t.Fatal(err)
	}
	m := New(since, []string{dir, kept}, map[string]bool{kept: true}, nil)
	near(t, "written meanwhile, and kept", grown(m), 3<<20)
}

// A tree that became too deep to be read counts as above the limit; no link leads out of it.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside+"/large", 4<<20)
	m := New(time.Now(), []string{dir}, nil, nil)
	for name, target := range map[string]string{"file": outside + "/large", "folder": outside, "self": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	near(t, "links", grown(m), 3*PerFile)
	if err := os.MkdirAll(dir+strings.Repeat("/d", MaxDepth+2), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := grown(m); got <= 1<<40 {
		t.Errorf("what cannot be read has grown by %d", got)
	}
	m = New(time.Now(), []string{dir}, nil, nil)
	near(t, "what could never be read", grown(m), 0)
	quit := make(chan struct{})
	close(quit)
	near(t, "nobody waits for it", grown(New(time.Now(), []string{dir}, nil, quit)), 0)
}

// The folders are read only if their file system has grown or the last reading is old.
func TestReadsSeldom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := New(time.Now(), []string{dir}, nil, nil)
	asked := 0
	held := func() []int { asked++; return nil }
	for range 10 {
		m.read, m.took = time.Now(), 0
		m.Growth(1<<50, held)
	}
	if asked > 0 {
		t.Errorf("without a reason the folders were read %d times", asked)
	}
	m.Growth(-1, held)
	if asked != 1 {
		t.Errorf("with a reason they were read %d times", asked)
	}
	m.read, m.took = time.Now().Add(-time.Hour), 0
	m.Growth(1<<50, held)
	if asked != 2 {
		t.Errorf("after a long time they were read %d times", asked-1)
	}
	m.read, m.took = time.Now(), time.Hour
	m.Growth(-1, held)
	if asked != 2 {
		t.Error("a large tree was read without a rest")
	}
}
