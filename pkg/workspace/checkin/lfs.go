package checkin

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// maxPointer is the largest pointer of git-lfs, in bytes.
const maxPointer = 1024

// Pointer stands in git's store for a file that is in git-lfs.
type Pointer struct {
	// SHA256 is the hash of the file's content in hex, Size its length in bytes.
	SHA256 string
	Size   int64
}

// PointerOf reads a pointer; ok reports whether stored is one.
func PointerOf(stored []byte) (p Pointer, ok bool) {
	if len(stored) > maxPointer || !strings.HasPrefix(string(stored), "version https://git-lfs.github.com/spec/v1\n") {
		return Pointer{}, false
	}
	for line := range strings.Lines(string(stored)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "oid":
			p.SHA256, ok = strings.CutPrefix(value, "sha256:")
			if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 || !ok {
				return Pointer{}, false
			}
		case "size":
			size, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return Pointer{}, false
			}
			p.Size = size
		}
	}
	return p, ok
}
