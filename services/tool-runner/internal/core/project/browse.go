package project

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
)

// Entry is an entry of a folder.
type Entry struct {
	Name string
	// Kind is file, folder, link or other.
	Kind string
	Size int64
	// ModifiedAt is in milliseconds.
	ModifiedAt int64
}

// List returns at most limit entries of a folder in order, after the name after, and whether there are more. It leaves
// out names that are not UTF-8, and denied paths. It fails with not_found if root is no folder, with file_not_found,
// and with invalid_params for a path that is no folder or leaves the project.
func List(root string, rules paths.Rules, folder, after string, limit int) ([]Entry, bool, error) {
	space, err := paths.Open(root, rules)
	if err != nil {
		return nil, false, err
	}
	defer space.Close()
	if folder == "" {
		folder = "."
	}
	at, err := space.Resolve("path", folder)
	if err != nil {
		return nil, false, err
	}
	f, info, err := at.Open()
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if !info.IsDir() {
		return nil, false, fault.New(fault.InvalidParams, "%s is a file and no folder.", at.Show).With("field", "path")
	}
	names, err := space.Entries(at, f)
	if err != nil {
		return nil, false, at.Failure("listed", err)
	}
	names = slices.DeleteFunc(
		names, func(e fs.DirEntry) bool { return e.Name() <= after || !utf8.ValidString(e.Name()) },
	)
	more := len(names) > limit
	return described(f, names[:min(len(names), limit)]), more, nil
}

// described returns entries with their attributes, without those removed meanwhile.
func described(dir *os.File, names []fs.DirEntry) []Entry {
	list := make([]Entry, 0, len(names))
	for _, e := range names {
		info, err := paths.Stat(dir, e.Name())
		if err != nil {
			continue
		}
		list = append(list, Entry{e.Name(), kindOf(info.Mode), info.Size, info.ModTime / int64(time.Millisecond)})
	}
	return list
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}

// chunkBytes is the number of bytes of a file that are sent at once.
const chunkBytes = 256 << 10

// Stream passes a file to send in pieces, with the size it had when it was opened: a file that shrinks ends early, and
// additions are left out. The first piece may be empty. It fails with not_found if root is no folder, with
// file_not_found, file_not_regular, invalid_params and capability_denied, and with the errors of send.
func Stream(
	ctx context.Context, root string, rules paths.Rules, name string, send func(
		size, modifiedAt int64, data []byte,
	) error,
) error {
	space, err := paths.Open(root, rules)
	if err != nil {
		return err
	}
	defer space.Close()
	at, err := space.Resolve("path", name)
	if err != nil {
		return err
	}
	f, info, err := at.OpenFile()
	if err != nil {
		return err
	}
	defer f.Close()
	left, first := info.Size(), true
	buf := make([]byte, chunkBytes)
	for first || left > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(f, buf[:min(left, chunkBytes)])
		over := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !over {
			return at.Failure("read", err)
		}
		if n > 0 || first {
			if err := send(info.Size(), info.ModTime().UnixMilli(), buf[:n]); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		first, left = false, left-int64(n)
	}
	return nil
}
