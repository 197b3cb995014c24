package issue

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
)

// maxFile is the maximum size of a file of an export in bytes; an issue with all its updates is smaller.
const maxFile = 64 << 20

// put writes an issue into a folder of an export. It replaces the file atomically. If the file was not written by an
// export, put leaves it unchanged and fails with conflict.
func put(dir string, i issueView) error {
	text, err := writeMarkdown(i)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%06d.md", i.Number))
	switch ours, err := exported(name); {
	case err != nil:
		return err
	case !ours:
		return fault.New(fault.Conflict, "%s is no export of an issue; choose another folder.", name)
	}
	f, err := os.CreateTemp(dir, ".kaged-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// exported reports whether a file may be replaced: it is missing, or starts like an export.
func exported(name string) (bool, error) {
	f, err := openRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if errors.Is(err, fault.BadRequest) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	begin := headLine + "\n" + format + "\n"
	head := make([]byte, len(begin))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return string(head[:n]) == begin, nil
}

// openRegular opens a regular file. It never waits, even for a pipe.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.New(fault.BadRequest, "It is not a regular file.")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fromFolder calls each with the issues of a folder's files and the file's name, in the order of the length of the
// names and then the names.
func fromFolder(dir string, each func(string, issueView) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		return cmp.Or(len(a.Name())-len(b.Name()), strings.Compare(a.Name(), b.Name()))
	})
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".md") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		i, err := load(name)
		if errors.Is(err, fault.BadRequest) {
			return fault.Wrap(err, fault.BadRequest, "%s: %s", name, fault.From(err).Msg)
		}
		if err != nil {
			return err
		}
		if err := each(name, i); err != nil {
			return err
		}
	}
	return nil
}

func load(name string) (issueView, error) {
	f, err := openRegular(name)
	if err != nil {
		return issueView{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return issueView{}, err
	case len(text) > maxFile:
		return issueView{}, fault.New(fault.BadRequest, "It is larger than %d bytes.", maxFile)
	}
	return readMarkdown(string(text))
}

// fromLines calls each with the issues of JSON lines, in their order.
func fromLines(r io.Reader, each func(string, issueView) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxFile)
	for n := 1; lines.Scan(); n++ {
		var i issueView
		if err := json.Unmarshal(lines.Bytes(), &i); err != nil || i.ID == "" {
			return fault.Wrap(err, fault.BadRequest, "Line %d is not an issue of `kaged issue export`.", n)
		}
		if err := each(fmt.Sprintf("Line %d", n), i); err != nil {
			return err
		}
	}
	return lines.Err()
}
