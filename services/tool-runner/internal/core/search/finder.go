package search

import (
	"bytes"
	"strings"
)

// finder looks for a text in data, in either case if fold is set; the text is then lower-case ASCII.
//
// It looks for the two rarest bytes of the text at their distance, 32 places at a time where the processor can, and compares
// the rest there. That is the way of the memchr library ripgrep stands on, and what makes it as fast: [bytes.Index] looks for
// the first byte, or the first two, and drops to some 1 GB/s where these are common, as in most words they are; and for either
// case the data would have to be rewritten in lower case first.
type finder struct {
	text          string
	fold          bool
	near, far     int // where in the text the two bytes are
	first, second byte
}

// common are the bytes no rarer than 1 in 2500 in Go's own sources, the most common first.
const common = " et\tr0n\naiso,xlcfdu.p1()/m:g2=h\"bS_T4AE{}y3vR6\\8IOCPDMk5LXFw9NVB7[]U*-GH;!+W&Y<z'%|K>Qqj`$"

// rarity is the higher the rarer a byte is.
func rarity(b byte) int {
	if i := strings.IndexByte(common, b); i >= 0 {
		return i
	}
	return len(common)
}

func newFinder(text string, fold bool) finder {
	f := finder{text: text, fold: fold}
	for i := range len(text) {
		if rarity(text[i]) > rarity(text[f.near]) {
			f.near = i
		}
	}
	f.far = f.near
	for i := range len(text) {
		if i != f.near && (f.far == f.near || rarity(text[i]) > rarity(text[f.far])) {
			f.far = i
		}
	}
	if f.near > f.far {
		f.near, f.far = f.far, f.near
	}
	f.first, f.second = text[f.near], text[f.far]
	return f
}

// blind is what letters of either case differ by.
const blind = 'a' - 'A'

// index returns the first place of the text in data, -1 if there is none.
func (f *finder) index(data []byte) int {
	if !hasPair {
		return f.indexPlain(data)
	}
	// The text may begin at each of places.
	places := len(data) - len(f.text) + 1
	first, second, fold := f.first, f.second, byte(0)
	if f.fold {
		fold = blind
		first, second = first|blind, second|blind
	}
	at := 0
	for whole := places - pairWidth; at <= whole; {
		i := pair(&data[at+f.near], (places-at)&^(pairWidth-1), first, second, fold, f.far-f.near)
		if i < 0 {
			at += (places - at) &^ (pairWidth - 1)
			break
		}
		if at += i; f.is(data[at:]) {
			return at
		}
		at++
	}
	for ; at < places; at++ {
		if data[at+f.near]|fold == first && f.is(data[at:]) {
			return at
		}
	}
	return -1
}

// is reports whether data begins with the text.
func (f *finder) is(data []byte) bool {
	if !f.fold {
		return string(data[:len(f.text)]) == f.text
	}
	for i := range len(f.text) {
		c := data[i]
		if 'A' <= c && c <= 'Z' {
			c |= blind
		}
		if c != f.text[i] {
			return false
		}
	}
	return true
}

// window is how far the plain search looks for one case of a byte before it looks for the other.
const window = 4 << 10

// indexPlain does what index does, with what every processor has.
func (f *finder) indexPlain(data []byte) int {
	if !f.fold {
		return bytes.Index(data, []byte(f.text))
	}
	places := len(data) - len(f.text) + 1
	upper := f.first
	if 'a' <= upper && upper <= 'z' {
		upper &^= blind
	}
	for at := 0; at < places; {
		part := data[at+f.near : min(at+window, places)+f.near]
		i := bytes.IndexByte(part, f.first)
		if upper != f.first {
			if i >= 0 {
				part = part[:i]
			}
			if j := bytes.IndexByte(part, upper); j >= 0 {
				i = j
			}
		}
		if i < 0 {
			at += len(part)
			continue
		}
		if at += i; f.is(data[at:]) {
			return at
		}
		at++
	}
	return -1
}
