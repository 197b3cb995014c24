package disk

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// PerFile is the minimum count of a file or a folder, in bytes.
const PerFile = 4096

// MaxDepth is the maximum depth to which folders are read. Deeper folders cannot be measured, and count as more than
// any limit.
const MaxDepth = 400

// Meter measures the growth of folders. Only one goroutine at a time may use it.
type Meter struct {
	folders []string
	base    int64
	quit    <-chan struct{}
	deep    bool // the folders were too deep already at the beginning, so later depth does not count

	used   map[uint64]int64 // use of each file system at the last reading of the folders
	growth int64            // growth of the folders at that reading
	read   time.Time
	took   time.Duration
	// dirty is the maximum of dirty bytes seen in mapped files without a name whose blocks cannot be read.
	dirty map[inode]int64
}

type inode struct{ dev, ino uint64 }

// New reads the present folders. Files made after since do not belong to the beginning, even if they are written during
// the reading. The caller leaves out folders inside others. full marks folders that count as empty at the beginning:
// all their content is growth. Reading ends early when quit is closed.
func New(since time.Time, folders []string, full map[string]bool, quit <-chan struct{}) *Meter {
	m := &Meter{folders: folders, quit: quit}
	m.used = m.systems()
	began := time.Now()
	for _, folder := range folders {
		if full[folder] {
			continue
		}
		r := reader{quit: quit, seen: map[inode]bool{}, before: since}
		r.folder(unix.AT_FDCWD, folder, 0)
		m.base += r.old
		m.deep = m.deep || r.deep
	}
	m.read, m.took = time.Now(), time.Since(began)
	return m
}

// systems returns the used bytes of each file system, with [PerFile] for each inode.
func (m *Meter) systems() map[uint64]int64 {
	used := map[uint64]int64{}
	for _, folder := range m.folders {
		var st unix.Stat_t
		var fs unix.Statfs_t
		if unix.Stat(folder, &st) != nil || unix.Statfs(folder, &fs) != nil {
			continue
		}
		used[uint64(st.Dev)] = int64(fs.Blocks-fs.Bfree)*int64(fs.Bsize) + int64(fs.Files-fs.Ffree)*PerFile
	}
	return used
}

// stale is the maximum age of a reading if no file system grew, because another writer may remove as much as is
// written.
const stale = 30 * time.Second

// rest is the pause before the next reading in multiples of the last reading's duration, so that a large tree is not
// read all the time.
const rest = 3

// Growth returns the growth of the folders, compared with limit. The folders are read again only if the file systems
// grew enough, or the last reading is old; otherwise it returns the growth at the last reading. Removed files of the
// processes from held count.
func (m *Meter) Growth(limit int64, held func() []int) int64 {
	now := m.systems()
	grown := m.growth
	for dev, used := range now {
		grown += max(0, used-m.used[dev])
	}
	since := time.Since(m.read)
	if grown <= limit && since < max(stale, 20*m.took) || since < rest*m.took {
		return m.growth
	}
	began := time.Now()
	r := reader{quit: m.quit, seen: map[inode]bool{}}
	for _, folder := range m.folders {
		r.folder(unix.AT_FDCWD, folder, 0)
	}
	m.dirty = r.removed(held(), now, m.dirty)
	m.used, m.read, m.took = now, time.Now(), time.Since(began)
	m.growth = max(0, r.all-m.base)
	if r.deep && !m.deep {
		m.growth = max(m.growth, limit+1)
	}
	return m.growth
}

// reader adds up files.
type reader struct {
	seen   map[inode]bool // files with several names
	before time.Time
	all    int64
	old    int64 // the part that existed at the beginning
	deep   bool
	blind  bool // whether a folder cannot be read
	quit   <-chan struct{}
}

// count adds a file or a folder.
func (r *reader) count(st *unix.Stat_t, born func() (time.Time, bool)) {
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		id := inode{uint64(st.Dev), st.Ino}
		if r.seen[id] {
			return
		}
		r.seen[id] = true
	}
	size := max(st.Blocks*512, PerFile)
	r.all += size
	changed := time.Unix(st.Ctim.Unix())
	if changed.Before(r.before) {
		r.old += size
		return
	}
	// A file that has changed since belongs to the beginning, with its present size, if it was created before.
	if at, known := born(); known && at.Before(r.before) {
		r.old += size
	}
}

// folder adds a folder with all its contents, or a file.
func (r *reader) folder(at int, name string, depth int) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	r.count(&st, func() (time.Time, bool) {
		var x unix.Statx_t
		if unix.Statx(at, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x) != nil || x.Mask&unix.STATX_BTIME == 0 {
			return time.Time{}, false
		}
		return time.Unix(x.Btime.Sec, int64(x.Btime.Nsec)), true
	})
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	if depth >= MaxDepth {
		r.deep = true
		return
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		r.blind = true
		return
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	for {
		select {
		case <-r.quit:
			return
		default:
		}
		names, err := dir.Readdirnames(512)
		for _, n := range names {
			r.folder(fd, n, depth+1)
		}
		if err != nil {
			return
		}
	}
}
