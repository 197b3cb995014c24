package changes

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/workspace/checkin"
	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/pkg/workspace/walk"
	"kaged.dev/services/tool-runner/internal/core/changes/githead"
)

// head is the tree of HEAD below the project's root.
type head struct {
	repository *githead.Repository
	tree       githead.Entry
	exists     bool // HEAD has such a folder
	rules      *checkin.Rules
	prefix     string // the path from the work tree's top to the project's root
}

// openHead returns HEAD of the repository that a folder is in, nil without a repository or a commit. It fails if the
// repository cannot be read.
func openHead(ctx context.Context, root string, user *ignore.User) (*head, error) {
	top, own, common := ignore.Repository(root)
	if top == "" {
		return nil, nil
	}
	repository, err := githead.Open(ctx, own, common)
	if errors.Is(err, githead.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &head{
		repository: repository, tree: repository.Root(), exists: true, rules: checkin.Open(top, common, user),
	}
	if rel, err := filepath.Rel(top, root); err == nil && rel != "." {
		h.prefix = filepath.ToSlash(rel)
		if h.tree, h.exists, err = repository.Find(ctx, h.tree, h.prefix); err != nil {
			repository.Close()
			return nil, err
		}
		h.exists = h.exists && h.tree.Kind == githead.Folder
	}
	return h, nil
}

// entry returns a file of HEAD, and whether there is one.
func (h *head) entry(ctx context.Context, rel string) (githead.Entry, bool, error) {
	if !h.exists {
		return githead.Entry{}, false, nil
	}
	e, ok, err := h.repository.Find(ctx, h.tree, filepath.ToSlash(rel))
	return e, ok && e.Kind == githead.File, err
}

// side returns the content of a file of HEAD.
func (h *head) side(ctx context.Context, file githead.Entry) side {
	data, err := h.repository.Blob(ctx, file, comparedFile)
	if errors.Is(err, githead.ErrLarge) {
		return side{large: true}
	}
	return side{data: data, lost: err != nil}
}

// equals reports whether a file has the content of the one in HEAD.
func equals(now side, file githead.Entry) bool {
	if now.missing || now.large {
		return false
	}
	hash := sha1.New()
	fmt.Fprintf(hash, "blob %d\x00", len(now.data))
	hash.Write(now.data)
	return githead.Hash(hash.Sum(nil)) == file.Hash
}

// Limits of a search for changes.
const (
	searchTime = 10 * time.Second
	workers    = 4
	maxFolders = 50000
	// maxPaths is the size of the paths that are remembered of HEAD, in bytes: a few trees that name each other hold
	// any number of them.
	maxPaths = 16 << 20
	pathCost = 64 // of a path besides its bytes
)

// outside adds files without an image that changed since the session began and differ from HEAD.
func (l *listing) outside(ctx context.Context, log *slog.Logger) error {
	user := ignore.LoadUser(l.LookupEnv)
	user.MayRead = func(real string) bool {
		_, err := l.space.Resolve("core.excludesFile", real)
		return err == nil
	}
	bounded, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	h, err := openHead(bounded, l.space.Root(), user)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		log.Warn("the repository of a project cannot be read", "root", l.space.Root(), "error", err)
		l.found.Truncated = true
		return nil
	}
	if h == nil {
		return nil
	}
	defer h.repository.Close()
	l.found.Head = h.repository.Commit()
	list, err := l.changedSince(bounded, user)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.found.Truncated = l.found.Truncated || err != nil
	missing, whole := l.missingFrom(bounded, h)
	l.found.Truncated = l.found.Truncated || !whole
	list = append(list, missing...)
	slices.Sort(list)
	l.compareAll(bounded, h, slices.Compact(list))
	return ctx.Err()
}

// compareAll adds those of the files that differ from HEAD, until the context ends.
func (l *listing) compareAll(ctx context.Context, h *head, list []string) {
	for _, rel := range list {
		if l.known[rel] || l.Path != "" && l.Path != rel {
			continue
		}
		if len(l.found.Files) == maxFiles {
			l.found.Truncated = true
			break
		}
		before, after, differs := l.fromHead(ctx, h, rel)
		// What the end interrupted looks like a difference.
		if ctx.Err() != nil {
			l.found.Truncated = true
			break
		}
		if differs {
			l.add(rel, before, after, Outside, nil)
		}
	}
	l.found.Truncated = l.found.Truncated || h.rules.Cut()
}

// fromHead returns a file in HEAD and as git would store it now, and whether they differ. A filter driver is not run,
// because it is a command of the repository; a file of git-lfs is compared with the hash in its pointer.
func (l *listing) fromHead(ctx context.Context, h *head, rel string) (before, after side, differs bool) {
	after, shown := l.now(rel)
	if !shown {
		return before, after, false
	}
	switch file, ok, err := h.entry(ctx, rel); {
	case err != nil:
		before.lost = true
	case !ok:
		before.missing = true
	case equals(after, file):
		return before, after, false
	default:
		before = h.side(ctx, file)
	}
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
	if !h.exists {
		return nil, true
	}
	type folder struct {
		rel  string
		tree githead.Entry
	}
	room := maxPaths
	whole = true
	todo := []folder{{"", h.tree}}
	for n := 0; len(todo) > 0; n++ {
		if ctx.Err() != nil || n == maxFolders {
			return list, false
		}
		at := todo[0]
		todo = todo[1:]
		tree, err := h.repository.Tree(ctx, at.tree)
		if err != nil {
			whole = false
			continue
		}
		here := l.names(at.rel)
		for e := range tree.All() {
			rel := path.Join(at.rel, e.Name)
			switch {
			case !filepath.IsLocal(rel) || strings.Contains(e.Name, "/"):
				continue
			case e.Kind == githead.Folder:
				todo = append(todo, folder{rel, e})
			case e.Kind == githead.File && here != nil && !here[e.Name]:
				list = append(list, rel)
			default:
				continue
			}
			if room -= len(rel) + pathCost; room < 0 {
				return list, false
			}
		}
	}
	return list, whole
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
