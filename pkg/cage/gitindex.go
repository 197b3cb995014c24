package cage

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits for reading an index, which the agent may have written.
const (
	maxIndex     = 64 << 20 // bytes
	maxIndexPath = 4096     // bytes of one path, the limit of Linux
	maxGitlinks  = 256      // protected gitlinks of one project
)

// errIndex reports an index that git could not read either, or that exceeds the limits.
var errIndex = errors.New("the index cannot be read")

// gitlinks returns the paths of the gitlinks in an index, at most maxGitlinks+1, and the name of its shared index
// or "". hash is the size of an object's name in bytes.
func gitlinks(r io.Reader, hash int) (links []string, shared string, err error) {
	in := bufio.NewReaderSize(io.LimitReader(r, maxIndex), 64<<10)
	var head [12]byte
	if _, err := io.ReadFull(in, head[:]); err != nil || string(head[:4]) != "DIRC" {
		return nil, "", errIndex
	}
	version, count := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return nil, "", errIndex
	}
	entry := indexEntries{in: in, version: version, hash: hash}
	for range count {
		mode, err := entry.next()
		if err != nil {
			return links, "", errIndex
		}
		if mode&unix.S_IFMT == gitlinkMode && len(links) <= maxGitlinks {
			links = append(links, string(entry.path))
		}
	}
	shared, err = sharedIndex(in, hash)
	return links, shared, err
}

// gitlinkMode is the file type of an entry that names a commit of another repository.
const gitlinkMode = 0o160000

// indexEntries reads the entries of an index one by one.
type indexEntries struct {
	in      *bufio.Reader
	version uint32
	hash    int
	path    []byte // of the last entry
	fixed   [40 + 64 + 4]byte
}

// next reads an entry into path and returns its mode.
func (e *indexEntries) next() (mode uint32, err error) {
	size := 40 + e.hash + 2
	if _, err := io.ReadFull(e.in, e.fixed[:size]); err != nil {
		return 0, err
	}
	mode = binary.BigEndian.Uint32(e.fixed[24:])
	const extended = 0x40
	if e.fixed[size-2]&extended != 0 && e.version >= 3 {
		if _, err := e.in.Discard(2); err != nil {
			return 0, err
		}
		size += 2
	}
	if e.version == 4 {
		strip, err := indexVarint(e.in)
		if err != nil || strip > uint64(len(e.path)) {
			return 0, errIndex
		}
		e.path = e.path[:len(e.path)-int(strip)]
		return mode, e.name()
	}
	e.path = e.path[:0]
	if err := e.name(); err != nil {
		return 0, err
	}
	// NULs pad the entry to a multiple of eight; one of them has been read.
	_, err = e.in.Discard(7 - (size+len(e.path))%8)
	return mode, err
}

// name appends bytes to path up to a NUL.
func (e *indexEntries) name() error {
	for {
		c, err := e.in.ReadByte()
		if err != nil || len(e.path) > maxIndexPath {
			return errIndex
		}
		if c == 0 {
			return nil
		}
		e.path = append(e.path, c)
	}
}

// indexVarint reads a number as git writes offsets.
func indexVarint(in *bufio.Reader) (value uint64, err error) {
	for i := 0; ; i++ {
		c, err := in.ReadByte()
		if err != nil || i > 8 {
			return 0, errIndex
		}
		value = value<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return value, nil
		}
		value++
	}
}

// sharedIndex reads the extensions after the entries, and returns the name of the shared index or "".
func sharedIndex(in *bufio.Reader, hash int) (string, error) {
	for {
		next, err := in.Peek(8)
		if err != nil || len(next) < 8 {
			return "", nil
		}
		// The checksum at the end is not an extension: it has too few bytes for the length in it, or an unknown name.
		name, size := string(next[:4]), binary.BigEndian.Uint32(next[4:])
		if name != "link" {
			if !isExtension(name) {
				return "", nil
			}
			if n, err := in.Discard(8 + int(size)); err != nil || n < 8+int(size) {
				return "", nil
			}
			continue
		}
		if _, err := in.Discard(8); err != nil || int(size) < hash {
			return "", errIndex
		}
		id := make([]byte, hash)
		if _, err := io.ReadFull(in, id); err != nil {
			return "", errIndex
		}
		return "sharedindex." + hex.EncodeToString(id), nil
	}
}

// isExtension reports whether a signature is that of an extension: four letters.
func isExtension(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// indexes caches the gitlinks of indexes, so that the index of a large repository is not read for each cage. It is safe
// for concurrent use.
type indexes struct {
	mu   sync.Mutex // guards kept
	kept map[string]keptIndex
}

// keptIndex is the parsed index file at the state identified by key.
type keptIndex struct {
	key   indexKey
	links []string
	whole bool
}

type indexKey struct {
	dev, ino             uint64
	size, mtime, changed int64
	hash                 int
}

const (
	keptIndexes = 64
	// racy is the minimum age of a change before a further change shows in the times of the file, as in git.
	racy = 2 * time.Second
)

// read returns the gitlinks of the index in a repository's folder. whole is false if it cannot be read to its end.
func (x *indexes) read(dir string, hash int) (links []string, whole bool) {
	links, shared, whole := x.readFile(filepath.Join(dir, "index"), hash)
	if shared != "" {
		more, _, all := x.readFile(filepath.Join(dir, shared), hash)
		links, whole = append(links[:len(links):len(links)], more...), whole && all
	}
	return links, whole && len(links) <= maxGitlinks
}

func (x *indexes) readFile(path string, hash int) (links []string, shared string, whole bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", errors.Is(err, unix.ENOENT)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, "", false
	}
	key := indexKey{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), changeTime(&st), hash}
	x.mu.Lock()
	kept, ok := x.kept[path]
	x.mu.Unlock()
	if ok && kept.key == key {
		return kept.links, "", kept.whole
	}
	links, shared, err = gitlinks(file, hash)
	whole = err == nil && st.Size <= maxIndex
	if shared == "" && time.Since(time.Unix(0, key.changed)) > racy {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.kept == nil || len(x.kept) >= keptIndexes {
			x.kept = map[string]keptIndex{}
		}
		x.kept[path] = keptIndex{key, links, whole}
	}
	return links, shared, whole
}
