package githead

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
)

// index is an open index of a pack. Its objects are sorted by their hashes. A search reads a few of them from the disk.
type index struct {
	file  *os.File
	until [256]uint32 // the number of objects with at most this first byte
	// first means version 1: the offset of an object stands before its hash.
	first bool
}

// The parts of an index.
const (
	fanSize   = 4 * 256
	headSize  = 8 // of version 2
	firstStep = 4 + 20
	crcSize   = 4
)

// openIndex opens an index.
func openIndex(path string) (*index, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	x := &index{file: f}
	if err := x.fan(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return x, nil
}

// fan reads the counts.
func (x *index) fan() error {
	var head [headSize + fanSize]byte
	if _, err := x.file.ReadAt(head[:], 0); err != nil {
		return err
	}
	counts := head[headSize:]
	if string(head[:4]) != "\xfftOc" {
		x.first, counts = true, head[:fanSize]
	} else if binary.BigEndian.Uint32(head[4:]) != 2 {
		return errBroken
	}
	for i := range x.until {
		x.until[i] = binary.BigEndian.Uint32(counts[4*i:])
		if i > 0 && x.until[i] < x.until[i-1] {
			return errBroken
		}
	}
	return nil
}

// search returns the offset of an object in the pack, and whether it is there.
func (x *index) search(h Hash) (offset int64, ok bool, err error) {
	from, to := int64(0), int64(x.until[h[0]])
	if h[0] > 0 {
		from = int64(x.until[h[0]-1])
	}
	for from < to {
		middle := (from + to) / 2
		var name Hash
		if _, err := x.file.ReadAt(name[:], x.name(middle)); err != nil {
			return 0, false, err
		}
		switch c := bytes.Compare(h[:], name[:]); {
		case c < 0:
			to = middle
		case c > 0:
			from = middle + 1
		default:
			offset, err := x.offset(middle)
			return offset, err == nil, err
		}
	}
	return 0, false, nil
}

// name returns the offset of the nth hash.
func (x *index) name(n int64) int64 {
	if x.first {
		return fanSize + firstStep*n + 4
	}
	return headSize + fanSize + int64(len(Hash{}))*n
}

// offset returns the offset of the nth object in the pack.
func (x *index) offset(n int64) (int64, error) {
	var short [4]byte
	at := x.name(n) - 4
	total := int64(x.until[255])
	if !x.first {
		at = x.name(total) + crcSize*total + 4*n
	}
	if _, err := x.file.ReadAt(short[:], at); err != nil {
		return 0, err
	}
	offset := int64(binary.BigEndian.Uint32(short[:]))
	if x.first || offset < 1<<31 {
		return offset, nil
	}
	var long [8]byte
	if _, err := x.file.ReadAt(long[:], x.name(total)+(crcSize+4)*total+8*(offset-1<<31)); err != nil {
		return 0, err
	}
	if offset = int64(binary.BigEndian.Uint64(long[:])); offset < 0 {
		return 0, errBroken
	}
	return offset, nil
}
