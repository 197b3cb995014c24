package githead

import "math/bits"

// cursor reads numbers of a pack. Its numbers are at most 63 bits long.
type cursor struct {
	rest  []byte
	short bool // more was read than there is, or a number was too long
}

func (c *cursor) next() byte {
	if len(c.rest) == 0 {
		c.short = true
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

// number reads seven bits a byte, the lowest first.
func (c *cursor) number() (n int64) {
	for shift := 0; ; shift += 7 {
		b := c.next()
		if shift+bits.Len8(b&0x7f) > 59 { // the caller may shift it by four
			c.short = true
		}
		if c.short {
			return 0
		}
		n |= int64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

// distance reads seven bits a byte, the highest first; each further byte also counts one.
func (c *cursor) distance() (n int64) {
	for {
		b := c.next()
		if c.short = c.short || n >= 1<<55; c.short {
			return 0
		}
		n |= int64(b & 0x7f)
		if b < 0x80 {
			return n
		}
		n = (n + 1) << 7
	}
}

// patch applies a difference: pieces of the base, and new bytes.
func patch(base, difference []byte) ([]byte, error) {
	in := cursor{rest: difference}
	from, to := in.number(), in.number()
	if in.short || from != int64(len(base)) || to > maxObject {
		return nil, errBroken
	}
	out := make([]byte, 0, to)
	for len(in.rest) > 0 {
		var piece []byte
		op := in.next()
		switch {
		case op >= 0x80:
			var offset, size int
			for i := range 7 {
				if op>>i&1 == 0 {
					continue
				}
				if b := int(in.next()); i < 4 {
					offset |= b << (8 * i)
				} else {
					size |= b << (8 * (i - 4))
				}
			}
			if size == 0 {
				size = 1 << 16
			}
			if in.short || offset > len(base)-size {
				return nil, errBroken
			}
			piece = base[offset : offset+size]
		case op == 0 || int(op) > len(in.rest):
			return nil, errBroken
		default:
			piece, in.rest = in.rest[:op], in.rest[op:]
		}
		if len(piece) > cap(out)-len(out) {
			return nil, errBroken
		}
		out = append(out, piece...)
	}
	if int64(len(out)) != to {
		return nil, errBroken
	}
	return out, nil
}
