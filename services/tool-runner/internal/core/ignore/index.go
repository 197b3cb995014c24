package ignore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
)

// index is the names git tracks in a repository. git ignores nothing it tracks, whatever the patterns say.
type index struct {
	names []string // in order
}

// maxIndex is the largest index that is read, in bytes: that of some two million files.
const maxIndex = 256 << 20

// maxNames bounds the names of an index together, in bytes, and maxName one of them, as the system does: in version 4 a few
// bytes make a name that is longer than the last, so that a small file could hold more than any memory.
const (
	maxNames = 256 << 20
	maxName  = 4096
)

// readIndex reads the index in a repository's own git folder, nil if there is none that can be read. hash is the size of the
// repository's object names.
func readIndex(git string, hash int) *index {
	names, shared := parseIndex(readUpTo(filepath.Join(git, "index"), maxIndex), hash)
	if shared != "" {
		// A split index holds what is new; the most is in a file it names.
		base, _ := parseIndex(readUpTo(filepath.Join(git, "sharedindex."+shared), maxIndex), hash)
		names = append(names, base...)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return &index{names}
}

// holds reports whether a path is tracked, or for a folder, something below it.
func (x *index) holds(path string, isDir bool) bool {
	if x == nil {
		return false
	}
	if _, found := slices.BinarySearch(x.names, path); found || !isDir {
		return found
	}
	// Between the folder's name and what is in it others may stand, such as "a.b" between "a" and "a/b".
	path += "/"
	at, found := slices.BinarySearch(x.names, path)
	return found || at < len(x.names) && strings.HasPrefix(x.names[at], path)
}

// The parts of an index file.
const (
	indexHeader  = 12 // "DIRC", version, number of entries
	entryStat    = 40 // what stat said when the file was last looked at
	extendedFlag = 0x4000
)

// parseIndex returns the names in an index of version 2, 3 or 4, as far as it makes sense, and the object name of the index
// it shares.
func parseIndex(data []byte, hash int) (names []string, shared string) {
	if len(data) < indexHeader+hash || string(data[:4]) != "DIRC" {
		return nil, ""
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return nil, ""
	}
	data = data[:len(data)-hash]
	rest, previous, total := data[indexHeader:], "", 0
	for range count {
		size := entryStat + hash + 2
		if len(rest) < size {
			return names, ""
		}
		if binary.BigEndian.Uint16(rest[size-2:])&extendedFlag != 0 && version > 2 {
			size += 2
		}
		if len(rest) < size {
			return names, ""
		}
		entry, text := rest, rest[size:]
		if version == 4 {
			// Names share their beginning with the one before.
			cut, n := offset(text)
			if n == 0 || cut > len(previous) {
				return names, ""
			}
			text = text[n:]
			end := bytes.IndexByte(text, 0)
			if end < 0 {
				return names, ""
			}
			previous = previous[:len(previous)-cut] + string(text[:end])
			rest = text[end+1:]
		} else {
			end := bytes.IndexByte(text, 0)
			if end < 0 {
				return names, ""
			}
			previous = string(text[:end])
			// Entries are filled up with one to eight zeros.
			rest = entry[min((size+end+8)&^7, len(entry)):]
		}
		if total += len(previous); len(previous) > maxName || total > maxNames {
			return names, ""
		}
		if previous != "" { // else it stands for one of the shared index
			names = append(names, previous)
		}
	}
	return names, sharedIndex(rest, hash)
}

// offset reads a number as git's version 4 index writes it; n is how many bytes it took, 0 if it is broken.
func offset(data []byte) (value, n int) {
	for n < len(data) && n < 5 {
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

// sharedIndex looks through the extensions of an index for the one that names another.
func sharedIndex(data []byte, hash int) string {
	for len(data) >= 8 {
		size := int(binary.BigEndian.Uint32(data[4:]))
		if size < 0 || size > len(data)-8 {
			return ""
		}
		if string(data[:4]) == "link" && size >= hash {
			name := data[8 : 8+hash]
			if bytes.Count(name, []byte{0}) < hash {
				return hex.EncodeToString(name)
			}
		}
		data = data[8+size:]
	}
	return ""
}
