package changes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"kaged.dev/pkg/workspace/checkin"
	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/pkg/workspace/walk"
)

// head is the tree of HEAD below the project's root.
type head struct {
	commit string
	tree   *object.Tree // nil where HEAD has no such folder
	rules  *checkin.Rules
	prefix string // the path from the work tree's top to the project's root
}

// openHead returns HEAD of the repository that a folder is in, nil without a repository or a commit.
func openHead(root string, user *ignore.User) *head {
	top, own, common := ignore.Repository(root)
	if top == "" {
		return nil
	}
	files := dotgit.NewRepositoryFilesystem(regular{osfs.New(own)}, regular{osfs.New(common)})
	objects := filesystem.NewStorage(files, cache.NewObjectLRU(cachedObjects))
	ref, err := storer.ResolveReference(objects, plumbing.HEAD)
	if err != nil {
		return nil
	}
	commit, err := object.GetCommit(objects, ref.Hash())
	if err != nil {
		return nil
	}
	h := &head{commit: commit.Hash.String(), rules: checkin.Open(top, common, user)}
	if h.tree, err = commit.Tree(); err != nil {
		return nil
	}
	if rel, err := filepath.Rel(top, root); err == nil && rel != "." {
		h.prefix = filepath.ToSlash(rel)
		if h.tree, err = h.tree.Tree(h.prefix); err != nil {
			h.tree = nil
		}
	}
	return h
}

// cachedObjects is the size of the object cache while a repository is read.
const cachedObjects = 32 * cache.MiByte

// side returns a file of HEAD.
func (h *head) side(rel string) side {
	if h.tree == nil {
		return side{missing: true}
	}
	f, err := h.tree.File(rel)
	if err != nil {
		missing := errors.Is(err, object.ErrFileNotFound)
		return side{missing: missing, lost: !missing}
	}
	if f.Size > comparedFile {
		return side{large: true}
	}
	r, err := f.Reader()
	if err != nil {
		return side{lost: true}
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, comparedFile+1))
	if err != nil {
		return side{lost: true}
	}
	return side{data: data}
}

// unchanged reports whether a file equals the one in HEAD.
func (h *head) unchanged(rel string, now side) bool {
	if h.tree == nil || now.missing || now.large {
		return false
	}
	entry, err := h.tree.FindEntry(rel)
	return err == nil && entry.Hash == plumbing.ComputeHash(plumbing.BlobObject, now.data)
}

// Limits of a search for changes.
const (
	searchTime = 10 * time.Second
	workers    = 4
	maxFolders = 50000
)

// outside adds files without an image that changed since the session began and differ from HEAD.
func (l *listing) outside(ctx context.Context) error {
	user := ignore.LoadUser(l.LookupEnv)
	user.MayRead = func(real string) bool {
		_, err := l.space.Resolve("core.excludesFile", real)
		return err == nil
	}
	h := openHead(l.space.Root(), user)
	if h == nil {
		return nil
	}
	l.found.Head = h.commit
	bounded, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	list, err := l.changedSince(bounded, user)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.found.Truncated = l.found.Truncated || err != nil
	missing, whole := l.missingFrom(bounded, h)
	l.found.Truncated = l.found.Truncated || !whole
	list = append(list, missing...)
	slices.Sort(list)
	for _, rel := range slices.Compact(list) {
		if l.known[rel] || l.Path != "" && l.Path != rel {
			continue
		}
		if bounded.Err() != nil || len(l.found.Files) == maxFiles {
			l.found.Truncated = true
			return ctx.Err()
		}
		if before, after, differs := l.fromHead(bounded, h, rel); differs {
			l.add(rel, before, after, Outside, nil)
		}
	}
	return nil
}

// fromHead returns a file in HEAD and as git would store it now, and whether they differ. A filter driver is not run,
// because it is a command of the repository; a file of git-lfs is compared with the hash in its pointer.
func (l *listing) fromHead(ctx context.Context, h *head, rel string) (before, after side, differs bool) {
	after, shown := l.now(rel)
	if !shown || h.unchanged(rel, after) {
		return before, after, false
	}
	before = h.side(rel)
	if after.missing {
		return before, after, true
	}
	conversion := h.rules.For(path.Join(h.prefix, rel))
	if conversion.None() || before.lost {
		return before, after, true
	}
	if conversion.LFS {
		if pointer, ok := checkin.PointerOf(before.data); ok {
			after.filtered = true
			return before, after, l.sum(ctx, rel, after, pointer.Size) != pointer.SHA256
		}
	}
	after.filtered = conversion.Driver != "" && !before.missing
	if !after.filtered && !after.large && !before.large {
		after.data = conversion.Apply(after.data, before.data)
	}
	return before, after, before.missing || after.filtered || !bytes.Equal(before.data, after.data)
}

// sum returns the hash of a file of a known size in hex, "" for one of another size.
func (l *listing) sum(ctx context.Context, rel string, now side, size int64) string {
	if !now.large {
		return now.sum
	}
	at, err := l.space.Resolve("path", rel)
	if err != nil {
		return ""
	}
	f, info, err := at.OpenFile()
	if err != nil {
		return ""
	}
	defer f.Close()
	if info.Size() != size {
		return ""
	}
	hash, buffer := sha256.New(), make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := f.Read(buffer)
		hash.Write(buffer[:n])
		if err == io.EOF {
			return hex.EncodeToString(hash.Sum(nil))
		}
		if err != nil {
			break
		}
	}
	return ""
}

// changedSince returns the files, without ignored ones, of which content, name or mode changed since the session
// began.
func (l *listing) changedSince(ctx context.Context, user *ignore.User) ([]string, error) {
	var mu sync.Mutex
	var list []string
	root := l.space.Root()
	top, err := l.space.Resolve("path", ".")
	if err != nil {
		return nil, err
	}
	opts := walk.Options{Workers: workers, Space: l.space, Rules: ignore.Start(root, root, user)}
	err = walk.Files(ctx, top, opts, func(_ context.Context, folder *walk.Folder, names []string) {
		for _, name := range names {
			if info, err := folder.Stat(name); err != nil || info.ChangeTime < l.Since*int64(time.Millisecond) {
				continue
			}
			mu.Lock()
			list = append(list, path.Join(folder.Path.Rel, name))
			mu.Unlock()
		}
	})
	return list, err
}

// missingFrom returns the files of HEAD that are missing in folders changed since the session began, and whether all
// folders were searched.
func (l *listing) missingFrom(ctx context.Context, h *head) (list []string, whole bool) {
	if h.tree == nil {
		return nil, true
	}
	type folder struct {
		rel  string
		tree *object.Tree
	}
	todo := []folder{{"", h.tree}}
	for n := 0; len(todo) > 0; n++ {
		if ctx.Err() != nil || n == maxFolders {
			return list, false
		}
		at := todo[0]
		todo = todo[1:]
		here := l.names(at.rel)
		for _, e := range at.tree.Entries {
			rel := path.Join(at.rel, e.Name)
			switch {
			case !filepath.IsLocal(rel) || strings.Contains(e.Name, "/"):
			case e.Mode == filemode.Dir:
				if sub, err := h.tree.Tree(rel); err == nil {
					todo = append(todo, folder{rel, sub})
				}
			case e.Mode.IsFile() && here != nil && !here[e.Name]:
				list = append(list, rel)
			}
		}
	}
	return list, true
}

// names returns the entries of a folder that changed since the session began, an empty set for a missing folder, nil
// for an unchanged one.
func (l *listing) names(rel string) map[string]bool {
	none := map[string]bool{}
	at, err := l.space.Resolve("path", path.Join(".", rel))
	if err != nil {
		return nil
	}
	f, info, err := at.Open()
	if err != nil || !info.IsDir() {
		return none
	}
	defer f.Close()
	if info.ModTime().UnixMilli() < l.Since {
		return nil
	}
	entries, err := l.space.Entries(at, f)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		none[e.Name()] = true
	}
	return none
}
