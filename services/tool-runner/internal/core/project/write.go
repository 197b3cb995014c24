package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
)

// Writing is a file of a project that an operator writes.
type Writing struct {
	// Root is the project's folder, absolute; Path is relative to it, with forward slashes and without links.
	Root, Path string
	Content    []byte
	// Was is the SHA-256 in hex of the file to replace, "" if no file may exist.
	Was string
}

// Hold prevents calls of agents from writing the paths until release is called.
type Hold func(ctx context.Context, list ...paths.Path) (release func(), err error)

// Write replaces a file completely, or creates it with its folders, while no call of an agent changes it. It returns
// the SHA-256 in hex of the new content. It fails with not_found if the root is no folder, with invalid_params for a
// path that leaves the project, with capability_denied for a path that goes through a link or is in a repository's
// folder, with file_too_large, with file_changed_since_read if the file's content does not match Was, and with
// file_busy while a call holds the file. A failed Write changes no file.
func Write(ctx context.Context, opts Options, files *change.Writer, hold Hold, w Writing) (string, error) {
	if int64(len(w.Content)) > opts.FileBytes {
		return "", fault.New(fault.FileTooLarge, "The text has %d bytes; %d is the most.", len(w.Content), opts.FileBytes).
			With("limit_bytes", int(opts.FileBytes))
	}
	space, err := paths.Open(w.Root, paths.Rules{Within: opts.Rules.Within})
	if err != nil {
		return "", err
	}
	defer space.Close()
	at, err := space.Resolve("path", w.Path)
	if err != nil {
		return "", err
	}
	if at.Abs() != path.Join(space.Root(), w.Path) || inRepository(w.Path) {
		return "", fault.New(fault.CapabilityDenied,
			"%s goes through a link or lies in a repository's own folder; it is not written.", at.Show).
			With("path", at.Show)
	}
	release, err := hold(ctx, at)
	if err != nil {
		return "", err
	}
	defer release()
	was, err := versionAt(at, w.Was, opts.FileBytes)
	if err != nil {
		return "", err
	}
	if err := files.Apply(change.Change{At: at, Was: was, Data: append([]byte{}, w.Content...)}); err != nil {
		return "", err
	}
	sum := sha256.Sum256(w.Content)
	return hex.EncodeToString(sum[:]), nil
}

// inRepository reports whether a path is in a folder with git's own files.
func inRepository(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

// versionAt returns the version of the file at a path if its content has the hash, and the zero version if file and
// hash are missing.
func versionAt(at paths.Path, hash string, limit int64) (change.Version, error) {
	f, info, err := at.OpenFile()
	if errors.Is(err, fault.FileNotFound) {
		if hash != "" {
			return change.Version{}, changed(at)
		}
		return change.Version{}, nil
	}
	if err != nil {
		return change.Version{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, limit+1)); err != nil {
		return change.Version{}, at.Failure("read", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != hash {
		return change.Version{}, changed(at)
	}
	return change.VersionOf(info), nil
}

func changed(at paths.Path) *fault.Error {
	return fault.New(fault.FileChangedSinceRead,
		"%s is another file than the one that was to be replaced; read it again.", at.Show).
		With("path", at.Show)
}
