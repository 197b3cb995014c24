package githead

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
)

// pack is a pack with its index.
type pack struct {
	base string   // the path without the end
	idx  *index   // nil if it is not kept open
	data *os.File // nil until an object is read
}

func (p *pack) close() {
	if p.idx != nil {
		p.idx.file.Close()
	}
	if p.data != nil {
		p.data.Close()
	}
}

// search returns the offset of an object in a pack, and whether it is there.
func (o *objects) search(p *pack, h Hash) (int64, bool, error) {
	x := p.idx
	if x == nil {
		var err error
		if x, err = openIndex(p.base + ".idx"); err != nil {
			return 0, false, err
		}
		if o.opened == maxOpen {
			defer x.file.Close()
		} else {
			o.opened++
			p.idx = x
		}
	}
	return x.search(h)
}

// entry is the head of an object in a pack.
type entry struct {
	kind int
	at   int64 // the offset of the entry
	size int64 // of its content, or of the difference
	base int64 // the offset of the entry from which this one differs
	data int64 // the offset of the zlib stream
}

// packed reads an object of a pack.
func (o *objects) packed(ctx context.Context, p *pack, at, limit int64) (object, error) {
	if p.data == nil {
		var err error
		if p.data, err = open(p.base + ".pack"); err != nil {
			return object{}, err
		}
		if p.idx == nil { // one of too many to keep open
			defer func() {
				p.data.Close()
				p.data = nil
			}()
		}
	}
	e, err := o.entry(p, at)
	if err != nil {
		return object{}, err
	}
	size := e.size
	if e.kind >= isOffset {
		if size, err = o.sizeAfter(ctx, p, e); err != nil {
			return object{}, err
		}
	}
	if size > limit {
		return object{}, ErrLarge
	}
	return o.unchain(ctx, p, e)
}

// unchain returns the object of an entry: the object at the end of its chain with each difference applied to it.
func (o *objects) unchain(ctx context.Context, p *pack, e entry) (object, error) {
	var chain []entry
	found, ok := o.cached[place{pack: p, at: e.at}]
	for ; !ok && e.kind >= isOffset; found, ok = o.cached[place{pack: p, at: e.at}] {
		if len(chain) == maxChain {
			return object{}, errBroken
		}
		chain = append(chain, e)
		var err error
		if e, err = o.entry(p, e.base); err != nil {
			return object{}, err
		}
	}
	if !ok {
		data, err := o.content(ctx, p, e)
		if err != nil {
			return object{}, err
		}
		found = object{kind: e.kind, data: data}
	}
	for n := len(chain) - 1; n >= 0; n-- {
		o.keep(place{pack: p, at: e.at}, found)
		e = chain[n]
		difference, err := o.content(ctx, p, e)
		if err != nil {
			return object{}, err
		}
		if found.data, err = patch(found.data, difference); err != nil {
			return object{}, err
		}
	}
	return found, nil
}

// maxEntry is the size of the longest head of an entry.
const maxEntry = 10 + 20

// entry reads the head of an entry.
func (o *objects) entry(p *pack, at int64) (entry, error) {
	buffer := make([]byte, maxEntry)
	n, err := p.data.ReadAt(buffer, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return entry{}, err
	}
	in := cursor{rest: buffer[:n]}
	first := in.next()
	e := entry{kind: int(first >> 4 & 7), at: at, size: int64(first & 15)}
	if first >= 0x80 {
		e.size |= in.number() << 4
	}
	switch e.kind {
	case isCommit, isTree, isBlob, isTag:
	case isOffset:
		e.base = at - in.distance()
		if e.base < 0 || e.base >= at {
			return entry{}, errBroken
		}
	case isReference:
		var h Hash
		if copy(h[:], in.rest) < len(h) {
			return entry{}, errBroken
		}
		in.rest = in.rest[len(h):]
		var ok bool
		if e.base, ok, err = o.search(p, h); err != nil || !ok {
			return entry{}, errors.Join(errBroken, err)
		}
	default:
		return entry{}, errBroken
	}
	if in.short || e.size < 0 {
		return entry{}, errBroken
	}
	e.data = at + int64(n-len(in.rest))
	return e, nil
}

// stream returns the content of an entry's zlib stream, until the next call.
func (o *objects) stream(ctx context.Context, p *pack, e entry) (io.Reader, error) {
	return o.inflate(ctx, io.NewSectionReader(p.data, e.data, math.MaxInt64-e.data))
}

// content returns the content of an entry, which may be a difference.
func (o *objects) content(ctx context.Context, p *pack, e entry) ([]byte, error) {
	if e.size > maxObject {
		return nil, errBroken
	}
	in, err := o.stream(ctx, p, e)
	if err != nil {
		return nil, err
	}
	return exactly(in, e.size)
}

// sizeAfter returns the size of an object by the beginning of its difference.
func (o *objects) sizeAfter(ctx context.Context, p *pack, e entry) (int64, error) {
	in, err := o.stream(ctx, p, e)
	if err != nil {
		return 0, err
	}
	var buffer [20]byte // of two numbers
	n, err := io.ReadFull(in, buffer[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, err
	}
	head := cursor{rest: buffer[:n]}
	head.number()
	size := head.number()
	if head.short {
		return 0, errBroken
	}
	return size, nil
}
