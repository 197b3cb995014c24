package ignore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// index is the set of names git tracks in a repository. git never ignores tracked files.
type index struct {
	names []string // in order
}

// maxIndex is the largest index that is read, in bytes: that of some two million files.
const maxIndex = 256 << 20

// maxNames bounds the names of all indexes of a walk together, in bytes of memory, and maxName one of them, as the
// system does: in version 4 a few bytes make a name that is longer than the last, so that a small file could hold more
// than any memory.
const (
	maxNames = 256 << 20
	maxName  = 4096
)

// room is memory that is shared, in bytes. It is safe for concurrent use.
type room struct{ left atomic.Int64 }

// take returns whether n bytes were left.
func (r *room) take(n int) bool {
	if r.left.Add(-int64(n)) >= 0 {
		return true
	}
	r.left.Add(int64(n))
	return false
}

// readIndex reads the index in a repository's own git folder, nil if there is no readable one. hash
// is the size of the repository's object names. Names beyond the room are left out.
func readIndex(git string, hash int, left *room) *index {
	names, shared := readNames(filepath.Join(git, "index"), hash, left)
	if shared != "" {
		// A split index holds the new entries; most are in a file it names.
		base, _ := readNames(filepath.Join(git, "sharedindex."+shared), hash, left)
		names = append(names, base...)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return &index{names}
}

func readNames(path string, hash int, left *room) (names []string, shared string) {
	f, size := open(path, unix.O_NOFOLLOW, maxIndex)
	if f == nil {
		return nil, ""
	}
	defer f.Close()
	return parseIndex(f, size, hash, left)
}

// holds reports whether a path is tracked, or for a folder, a path below it.
func (x *index) holds(path string, isDir bool) bool {
	if x == nil {
		return false
	}
	if _, found := slices.BinarySearch(x.names, path); found || !isDir {
		return found
	}
	// Between the folder's name and its contents other names may stand, such as "a.b" between "a"
	// and "a/b".
	path += "/"
	at, found := slices.BinarySearch(x.names, path)
	return found || at < len(x.names) && strings.HasPrefix(x.names[at], path)
}

// The parts of an index file.
const (
	indexHeader  = 12 // "DIRC", version, number of entries
	entryStat    = 40 // the file's stat when it was last checked
	entryMode    = 24 // in it, where the mode stands
	submodule    = 0o160000
	extendedFlag = 0x4000
)

// indexPiece is the part of an index in memory at a time, nameSize the memory of a name besides its
// bytes.
const (
	indexPiece = 64 << 10
	nameSize   = 16
)

// parseIndex returns the names in an index of version 2, 3 or 4, as far as it is valid, and the
// object name of the index it shares. It reads no further than the valid part: a large sparse file
// costs its maker no disk.
func parseIndex(file io.ReaderAt, size int64, hash int, left *room) (names []string, shared string) {
	var header [indexHeader]byte
	if _, err := file.ReadAt(header[:], 0); err != nil || string(header[:4]) != "DIRC" {
		return nil, ""
	}
	version, count := binary.BigEndian.Uint32(header[4:]), binary.BigEndian.Uint32(header[8:])
	size -= int64(hash) // of all that stands before it
	least := int64(entryStat + hash + 4)
	if version < 2 || version > 4 || int64(count) > (size-indexHeader)/least {
		return nil, ""
	}
	in := entryReader{hash: hash, version: version, at: indexHeader}
	in.data = bufio.NewReaderSize(
		io.NewSectionReader(file, indexHeader, max(size-indexHeader, 0)),
		int(min(size, indexPiece)),
	)
	for range count {
		name, ok := in.next()
		switch {
		case !ok:
			return names, ""
		case name == "": // it stands for one of the shared index
		case !left.take(len(name) + nameSize):
			return names, ""
		default:
			names = append(names, name)
		}
	}
	return names, sharedIndex(io.NewSectionReader(file, in.at, max(size-in.at, 0)), hash)
}

// entryReader reads the entries of an index one by one.
type entryReader struct {
	data     *bufio.Reader
	hash     int
	version  uint32
	at       int64  // in the file
	previous string // name
}

// next returns the name of the next entry, false at the end of the valid part.
func (r *entryReader) next() (string, bool) {
	size := entryStat + r.hash + 2
	head, err := r.data.Peek(size)
	if err != nil || !isMode(binary.BigEndian.Uint32(head[entryMode:])) {
		return "", false
	}
	if binary.BigEndian.Uint16(head[size-2:])&extendedFlag != 0 && r.version > 2 {
		size += 2
	}
	r.skip(size)
	kept := 0
	if r.version == 4 {
		// Names share their beginning with the one before.
		text, _ := r.data.Peek(maxOffset)
		cut, n := offset(text)
		if n == 0 || cut > len(r.previous) {
			return "", false
		}
		r.skip(n)
		kept = len(r.previous) - cut
	}
	text, err := r.data.ReadSlice(0)
	if err != nil || kept+len(text)-1 > maxName {
		return "", false
	}
	r.at += int64(len(text))
	r.previous = r.previous[:kept] + string(text[:len(text)-1])
	if used := size + len(text); r.version < 4 {
		// Entries are filled up with zeros, of which the one behind the name is the first.
		r.skip((used+7)&^7 - used)
	}
	return r.previous, true
}

func (r *entryReader) skip(n int) {
	n, _ = r.data.Discard(n)
	r.at += int64(n)
}

// isMode reports whether an entry can have this mode: it is a file, a link, a submodule, or a folder outside a sparse
// checkout.
func isMode(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFLNK, submodule, unix.S_IFDIR:
		return true
	}
	return false
}

// maxOffset is how many bytes the number in a name of version 4 may take.
const maxOffset = 5

// offset reads a number as git's version 4 index writes it; n is how many bytes it took, 0 if it is broken.
func offset(data []byte) (value, n int) {
	for n < len(data) && n < maxOffset {
		c := data[n]
		if n++; n > 1 {
			value++
		}
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, n
		}
	}
	return 0, 0
}

// maxExtensions is how many extensions of an index are looked at; git knows fewer.
const maxExtensions = 32

// sharedIndex looks through the extensions of an index for the one that names another.
func sharedIndex(extensions *io.SectionReader, hash int) string {
	var head [8]byte
	at := int64(0)
	for range maxExtensions {
		if _, err := extensions.ReadAt(head[:], at); err != nil {
			return ""
		}
		size := int64(binary.BigEndian.Uint32(head[4:]))
		at += int64(len(head))
		if string(head[:4]) == "link" && size >= int64(hash) {
			name := make([]byte, hash)
			if _, err := extensions.ReadAt(name, at); err == nil && bytes.Count(name, []byte{0}) < hash {
				return hex.EncodeToString(name)
			}
		}
		at += size
	}
	return ""
}
