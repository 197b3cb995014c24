package changes

import (
	"context"
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

	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/pkg/workspace/walk"
)

// head is the tree of HEAD below the project's root.
type head struct {
	commit string
	tree   *object.Tree // nil if HEAD has no such folder
}

// openHead returns HEAD of the repository around a folder, nil without a repository or a commit.
func openHead(root string) *head {
	top, own, common := ignore.Repository(root)
	if top == "" {
		return nil
	}
	files := dotgit.NewRepositoryFilesystem(osfs.New(own), osfs.New(common))
	objects := filesystem.NewStorage(files, cache.NewObjectLRU(cachedObjects))
	ref, err := storer.ResolveReference(objects, plumbing.HEAD)
	if err != nil {
		return nil
	}
	commit, err := object.GetCommit(objects, ref.Hash())
	if err != nil {
		return nil
	}
	h := &head{commit: commit.Hash.String()}
	if h.tree, err = commit.Tree(); err != nil {
		return nil
	}
	if rel, err := filepath.Rel(top, root); err == nil && rel != "." {
		if h.tree, err = h.tree.Tree(filepath.ToSlash(rel)); err != nil {
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
	h := openHead(l.space.Root())
	if h == nil {
		return nil
	}
	l.found.Head = h.commit
	bounded, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	list, err := l.changedSince(bounded)
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
		if now, shown := l.now(rel); shown && !h.unchanged(rel, now) {
			l.add(rel, h.side(rel), Outside, nil)
		}
	}
	return nil
}

// changedSince returns the files, without ignored ones, whose content, name or mode changed since the session began.
func (l *listing) changedSince(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var list []string
	root := l.space.Root()
	top, err := l.space.Resolve("path", ".")
	if err != nil {
		return nil, err
	}
	user := ignore.LoadUser(l.LookupEnv)
	user.MayRead = func(real string) bool {
		_, err := l.space.Resolve("core.excludesFile", real)
		return err == nil
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
