package githead

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The bounds of one repository.
const (
	maxObject     = 8 << 20   // bytes of an object that is read, and of each base that its differences start from
	maxCached     = 16 << 20  // bytes of objects that are kept
	maxPacks      = 4096      // packs, in all folders of objects
	maxOpen       = 64        // packs with an index that is kept open
	maxChain      = 4096      // differences behind one object; git makes at most 4095
	maxAlternates = 16        // folders of objects
	maxSmall      = 64 << 10  // bytes of a list of alternates
	maxRef        = 4096      // bytes of a reference, and of a line of the packed ones
	maxSymbolic   = 5         // references that lead to references, as in git
	maxPackedRefs = 128 << 20 // bytes of packed references
)

var (
	// ErrNone means that there is no commit at HEAD.
	ErrNone = errors.New("the repository has no commit")
	// ErrLarge means that an object is larger than its reader wants.
	ErrLarge = errors.New("the object is too large")

	errBroken  = errors.New("the repository is broken or exceeds a limit")
	errMissing = errors.New("the object is missing")
)

// Hash names an object.
type Hash [20]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// parseHash reads a hash in hex.
func parseHash(text string) (h Hash, ok bool) {
	if len(text) != 2*len(h) {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(text))
	return h, err == nil
}

// Repository reads the files of a repository's HEAD. It is not safe for concurrent use.
type Repository struct {
	commit, tree Hash
	objects      objects
}

// Open reads HEAD. own is the folder of the repository's or worktree's own data, common that of the data which it
// shares. It fails with ErrNone without a commit, and with other errors if the repository cannot be read.
func Open(ctx context.Context, own, common string) (*Repository, error) {
	commit, err := resolveHead(ctx, own, common)
	if err != nil {
		return nil, err
	}
	r := &Repository{commit: commit}
	if err := r.objects.open(ctx, common); err != nil {
		return nil, err
	}
	data, err := r.objects.read(ctx, commit, isCommit, maxObject)
	if err == nil {
		r.tree, err = treeOf(data)
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("commit %s: %w", commit, err)
	}
	return r, nil
}

// Close closes the files of the repository.
func (r *Repository) Close() { r.objects.close() }

// Commit returns the hash of the commit at HEAD.
func (r *Repository) Commit() string { return r.commit.String() }

// treeOf returns the tree of a commit.
func treeOf(commit []byte) (Hash, error) {
	line, _, _ := strings.Cut(string(commit[:min(len(commit), 64)]), "\n")
	text, _ := strings.CutPrefix(line, "tree ")
	h, ok := parseHash(text)
	if !ok {
		return h, errBroken
	}
	return h, nil
}

// Root returns the tree of the work tree's top.
func (r *Repository) Root() Entry { return Entry{Kind: Folder, Hash: r.tree} }

// Find returns the entry at a path below a folder, with slashes, and whether there is one.
func (r *Repository) Find(ctx context.Context, from Entry, path string) (Entry, bool, error) {
	for name := range strings.SplitSeq(path, "/") {
		if from.Kind != Folder {
			return Entry{}, false, nil
		}
		tree, order, err := r.objects.folder(ctx, from.Hash)
		if err != nil {
			return Entry{}, false, err
		}
		var found bool
		if from, found = tree.find(order, name); !found {
			return Entry{}, false, nil
		}
	}
	return from, true, nil
}

// Tree returns the content of a folder.
func (r *Repository) Tree(ctx context.Context, folder Entry) (Tree, error) {
	data, err := r.objects.read(ctx, folder.Hash, isTree, maxObject)
	if err != nil {
		return nil, err
	}
	if t := Tree(data); t.whole() {
		return t, nil
	}
	return nil, errBroken
}

// Blob returns the content of a file. It fails with ErrLarge, without reading it, if it is larger than limit.
func (r *Repository) Blob(ctx context.Context, file Entry, limit int64) ([]byte, error) {
	return r.objects.read(ctx, file.Hash, isBlob, limit)
}

// open opens a regular file. An agent may have put a pipe in its place, and to open
// a pipe is to wait for another process.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	refused := &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
	if !info.Mode().IsRegular() {
		if !info.IsDir() {
			refused.Err = fs.ErrInvalid
		}
		return nil, refused
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, refused, f.Close())
	}
	return f, nil
}

// absent reports whether an error means that there is no file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR)
}
