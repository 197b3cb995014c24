// Package project reads files of a project for services on other hosts. It reads regular files below the project's root
// and follows links that stay inside it. It reports a state for each file.
package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
)

// Options are the limits of one request.
type Options struct {
	// Files is the maximum number of requested files.
	Files int
	// FileBytes is the maximum size of a returned file if the request has none.
	FileBytes int64
	// TotalBytes is the maximum size of all contents of an answer, so that the answer fits into a message.
	TotalBytes int64
	// Rules are the operator's path rules for imports of instructions.
	Rules paths.Rules
}

// State is the result of reading a file.
type State int

// The states.
const (
	Found State = iota + 1
	Missing
	Unchanged
	Refused
)

// Request names the requested files.
type Request struct {
	// Root is the project's folder, absolute; Paths are relative to it.
	Root  string
	Paths []string
	// Known has, by path, the SHA-256 in hex of the content that the caller already has.
	Known map[string]string
	// MaxBytes is the maximum size of a returned file, 0 for the default.
	MaxBytes int64
}

// File is one file.
type File struct {
	Path    string
	State   State
	Content []byte
	SHA256  string
	Reason  string
}

// Read returns the root with resolved links, and the files in the requested order. It fails with not_found if root is
// no folder and with bad_request if too many files are requested. A failure of one file is in its state.
func Read(ctx context.Context, opts Options, req Request) (string, []File, error) {
	if len(req.Paths) > opts.Files {
		return "", nil,
			fault.New(fault.BadRequest, "At most %d files can be read at once, not %d.", opts.Files, len(req.Paths)).
				With("limit", opts.Files)
	}
	space, err := paths.Open(req.Root, paths.Rules{Within: opts.Rules.Within})
	if err != nil {
		return "", nil, err
	}
	defer space.Close()
	limit := req.MaxBytes
	if limit <= 0 {
		limit = opts.FileBytes
	}
	files := make([]File, len(req.Paths))
	left := opts.TotalBytes
	for i, path := range req.Paths {
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
		if path == dsl.InstructionsPath {
			files[i] = opts.instructions(req.Root, req.Known[path], left)
		} else {
			files[i] = readOne(space, path, req.Known[path], limit, left)
		}
		left -= int64(len(files[i].Content))
	}
	return space.Root(), files, nil
}

func readOne(space *paths.Space, path, known string, limit, left int64) File {
	file := File{Path: path, State: Refused}
	at, err := space.Resolve("path", path)
	if err != nil {
		file.Reason = fault.From(err).Msg
		return file
	}
	f, info, err := at.OpenFile()
	if errors.Is(err, fault.FileNotFound) {
		file.State = Missing
		return file
	}
	if err != nil {
		file.Reason = fault.From(err).Msg
		return file
	}
	defer f.Close()
	if info.Size() > limit {
		file.Reason = fault.New(fault.FileTooLarge, "The file is larger than %d bytes.", limit).Msg
		return file
	}
	// The file may have grown since.
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	sum := sha256.Sum256(content)
	file.SHA256 = hex.EncodeToString(sum[:])
	switch {
	case err != nil:
		file.Reason = "The file could not be read."
	case int64(len(content)) > limit:
		file.Reason = fault.New(fault.FileTooLarge, "The file is larger than %d bytes.", limit).Msg
	case file.SHA256 == known:
		file.State = Unchanged
		return file
	case int64(len(content)) > left:
		file.Reason = "The file does not fit into this answer; ask for fewer files at once."
	default:
		file.State, file.Content = Found, content
		return file
	}
	file.SHA256 = ""
	return file
}
