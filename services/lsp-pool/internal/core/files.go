package core

import (
	"io"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// files are the files below a root. Files outside are never read, because links are not followed.
type files struct{ root *paths.Root }

// at returns the path below the root of an absolute path.
func (f files) at(path string) (paths.Path, error) {
	rel, err := filepath.Rel(f.root.Path(), path)
	if err != nil || !filepath.IsLocal(rel) {
		return paths.Path{}, fault.New(fault.InvalidParams, "%s is outside the project.", path).With("field", "path")
	}
	return f.root.At(rel), nil
}

// Stat implements [lsp.Files]. It uses no os.File, because each query needs the stamp of every open document.
func (f files) Stat(path string) (lsp.Stamp, error) {
	place, err := f.at(path)
	if err != nil {
		return lsp.Stamp{}, err
	}
	fd, err := place.OpenFD()
	if err != nil {
		return lsp.Stamp{}, place.Failure("opened", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return lsp.Stamp{}, place.Failure("opened", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return lsp.Stamp{}, place.NotRegular()
	}
	return lsp.Stamp{Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}, nil
}

// Read implements [lsp.Files].
func (f files) Read(path string, limit int) ([]byte, lsp.Stamp, error) {
	place, err := f.at(path)
	if err != nil {
		return nil, lsp.Stamp{}, err
	}
	file, info, err := place.OpenFile()
	if err != nil {
		return nil, lsp.Stamp{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, lsp.Stamp{}, place.Failure("read", err)
	}
	if len(data) > limit {
		return nil, lsp.Stamp{}, fault.New(fault.FileTooLarge,
			"%s is larger than the %d bytes that a language server is shown.", place.Show, limit).
			With("path", place.Show).With("limit_bytes", limit)
	}
	return data, change.VersionOf(info), nil
}
