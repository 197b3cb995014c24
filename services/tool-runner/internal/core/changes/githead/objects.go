package githead

import (
	"bufio"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The kinds of objects, as packs number them.
const (
	isCommit    = 1
	isTree      = 2
	isBlob      = 3
	isTag       = 4
	isOffset    = 6 // a difference from an object of the same pack at an offset
	isReference = 7 // a difference from a named object of the same pack
)

// kinds are the names of the kinds in loose objects.
var kinds = map[string]int{"commit": isCommit, "tree": isTree, "blob": isBlob, "tag": isTag}

// object is the content of an object.
type object struct {
	kind  int
	data  []byte
	order []int32 // of a folder in which a name was looked up: its entries by name
}

// size returns the bytes that an object takes.
func (o object) size() int { return len(o.data) + 4*cap(o.order) }

// place is the key of a kept object: its hash, or its offset in a pack.
type place struct {
	hash Hash
	pack *pack
	at   int64
}

// objects are the objects of a repository.
type objects struct {
	folders []string
	packs   []*pack
	opened  int // packs with an index that is kept open

	cached map[place]object
	bytes  int // in cached

	in     *bufio.Reader
	zipped io.ReadCloser // nil until the first object is read
}

// open finds the folders of objects, and the packs in them.
func (o *objects) open(ctx context.Context, common string) error {
	o.cached = map[place]object{}
	o.in = bufio.NewReader(nil)
	o.folders = []string{filepath.Join(common, "objects")}
	for n := 0; n < len(o.folders); n++ {
		if err := o.borrow(o.folders[n]); err != nil {
			return err
		}
		if err := o.list(ctx, filepath.Join(o.folders[n], "pack")); err != nil {
			return err
		}
	}
	return nil
}

// borrow adds the folders that a folder of objects names.
func (o *objects) borrow(folder string) error {
	text, err := small(filepath.Join(folder, "info", "alternates"), maxSmall)
	if err != nil {
		if absent(err) {
			return nil
		}
		return err
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(folder, line)
		}
		if line = filepath.Clean(line); slices.Contains(o.folders, line) {
			continue
		}
		if len(o.folders) == maxAlternates {
			return errBroken
		}
		o.folders = append(o.folders, line)
	}
	return nil
}

// list adds the packs of a folder.
func (o *objects) list(ctx context.Context, folder string) error {
	dir, err := os.Open(folder + "/") // with a slash, so that a pipe is not waited for
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if base, ok := strings.CutSuffix(name, ".idx"); ok && strings.HasPrefix(base, "pack-") {
				o.packs = append(o.packs, &pack{base: filepath.Join(folder, base)})
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(o.packs) > maxPacks:
			return errBroken
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func (o *objects) close() {
	for _, p := range o.packs {
		p.close()
	}
}

// read returns an object of a kind. It fails with ErrLarge if it is larger than limit, or maxObject.
func (o *objects) read(ctx context.Context, h Hash, kind int, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, ok := o.cached[place{hash: h}]
	if !ok {
		var err error
		if found, err = o.find(ctx, h, min(limit, maxObject)); err != nil {
			return nil, err
		}
		o.keep(place{hash: h}, found)
	}
	switch {
	case found.kind != kind:
		return nil, errBroken
	case int64(len(found.data)) > limit:
		return nil, ErrLarge
	}
	return found.data, nil
}

// folder returns a folder with the order of its entries. Many files of one folder are looked up, so both are kept.
func (o *objects) folder(ctx context.Context, h Hash) (Tree, []int32, error) {
	data, err := o.read(ctx, h, isTree, maxObject)
	if err != nil {
		return nil, nil, err
	}
	at := place{hash: h}
	found := o.cached[at]
	if found.order == nil {
		order, whole := Tree(data).order()
		if !whole {
			return nil, nil, errBroken
		}
		o.bytes -= found.size()
		delete(o.cached, at)
		found.order = order
		o.keep(at, found)
	}
	return Tree(data), found.order, nil
}

// find reads an object from a pack or its own file. Packs come first, and of several copies the first that can be read
// counts, as in git.
func (o *objects) find(ctx context.Context, h Hash, limit int64) (object, error) {
	var broken error
	for _, p := range o.packs {
		at, ok, err := o.search(p, h)
		if ok {
			var found object
			if found, err = o.packed(ctx, p, at, limit); err == nil || errors.Is(err, ErrLarge) {
				return found, err
			}
		}
		if ctx.Err() != nil {
			return object{}, ctx.Err()
		}
		if broken == nil {
			broken = err
		}
	}
	for _, folder := range o.folders {
		name := h.String()
		found, err := o.loose(ctx, filepath.Join(folder, name[:2], name[2:]), limit)
		if err == nil || errors.Is(err, ErrLarge) {
			return found, err
		}
		if ctx.Err() != nil {
			return object{}, ctx.Err()
		}
		if broken == nil && !absent(err) {
			broken = err
		}
	}
	if broken != nil {
		return object{}, broken
	}
	return object{}, errMissing
}

// keep keeps an object for its next readers.
func (o *objects) keep(at place, found object) {
	if _, kept := o.cached[at]; kept {
		return
	}
	if o.bytes+found.size() > maxCached {
		clear(o.cached)
		o.bytes = 0
	}
	o.cached[at] = found
	o.bytes += found.size()
}

// loose reads an object that has a file of its own.
func (o *objects) loose(ctx context.Context, path string, limit int64) (object, error) {
	f, err := open(path)
	if err != nil {
		return object{}, err
	}
	defer f.Close()
	zipped, err := o.inflate(ctx, f)
	if err != nil {
		return object{}, err
	}
	in := bufio.NewReaderSize(zipped, 64)
	head, err := in.ReadSlice(0)
	if err != nil {
		return object{}, err
	}
	name, length, _ := strings.Cut(string(head[:len(head)-1]), " ")
	size, err := strconv.ParseInt(length, 10, 64)
	if err != nil || size < 0 || kinds[name] == 0 {
		return object{}, errBroken
	}
	if size > limit {
		return object{}, ErrLarge
	}
	data, err := exactly(in, size)
	return object{kind: kinds[name], data: data}, err
}

// inflate returns the content of a zlib stream, until the next call.
func (o *objects) inflate(ctx context.Context, in io.Reader) (io.Reader, error) {
	o.in.Reset(source{ctx, in})
	if again, ok := o.zipped.(zlib.Resetter); ok {
		return o.zipped, again.Reset(o.in, nil)
	}
	var err error
	o.zipped, err = zlib.NewReader(o.in)
	if err != nil {
		o.zipped = nil
	}
	return o.zipped, err
}

// exactly reads a stream of a known size.
func exactly(in io.Reader, size int64) ([]byte, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, err
	}
	var more [1]byte
	if _, err := io.ReadFull(in, more[:]); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errBroken, err)
	}
	return data, nil
}
