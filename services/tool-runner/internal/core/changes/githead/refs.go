package githead

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
)

// reftable is the branch in the file HEAD of a repository that keeps its references in tables.
const reftable = "refs/heads/.invalid"

// resolveHead returns the commit at HEAD.
func resolveHead(ctx context.Context, own, common string) (Hash, error) {
	name, dir := "HEAD", own
	for range maxSymbolic + 1 {
		text, err := small(filepath.Join(dir, name), maxRef)
		if absent(err) {
			if name == "HEAD" {
				return Hash{}, ErrNone
			}
			return packedRef(ctx, common, name)
		}
		if err != nil {
			return Hash{}, err
		}
		target, symbolic := strings.CutPrefix(text, "ref:")
		if !symbolic {
			if h, ok := parseHash(strings.TrimSpace(text)); ok {
				return h, nil
			}
			return Hash{}, errBroken
		}
		name = strings.TrimSpace(target)
		if !strings.HasPrefix(name, "refs/") || !filepath.IsLocal(name) || filepath.Clean(name) != name ||
			name == reftable {
			return Hash{}, errBroken
		}
		if dir = common; ofWorktree(name) {
			dir = own
		}
	}
	return Hash{}, errBroken
}

// ofWorktree reports whether each worktree has such a reference of its own.
func ofWorktree(name string) bool {
	for _, folder := range []string{"refs/bisect/", "refs/worktree/", "refs/rewritten/"} {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return false
}

// small returns the content of a file of at most limit bytes.
func small(path string, limit int64) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errBroken
	}
	return string(data), err
}

// packedRef returns a reference from the list of those without a file.
func packedRef(ctx context.Context, common, name string) (Hash, error) {
	f, err := open(filepath.Join(common, "packed-refs"))
	if absent(err) {
		return Hash{}, ErrNone
	}
	if err != nil {
		return Hash{}, err
	}
	defer f.Close()
	limited := &io.LimitedReader{R: source{ctx, f}, N: maxPackedRefs}
	for in := bufio.NewReaderSize(limited, maxRef); ; {
		line, err := in.ReadSlice('\n')
		if hash, ref, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte{' '}); ok && string(ref) == name {
			if h, ok := parseHash(string(hash)); ok {
				return h, nil
			}
			return Hash{}, errBroken
		}
		switch {
		case errors.Is(err, io.EOF) && limited.N > 0:
			return Hash{}, ErrNone
		case errors.Is(err, io.EOF):
			return Hash{}, errBroken
		case err != nil:
			return Hash{}, err
		}
	}
}

// source is a reader that ends with a context.
type source struct {
	ctx context.Context
	io.Reader
}

func (s source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}
