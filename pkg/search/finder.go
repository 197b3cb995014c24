package search

import (
	"bytes"
	"slices"
	"strings"
)

// finder finds a text in data, in either case if fold is set; the text is then lower-case ASCII.
//
// It compares three bytes of the text at their distances, 32 places at a time where the processor has AVX2, and the
// rest of the text at each match. This is the method of the memchr crate, which ripgrep uses, with one byte more: a
// text of common words, such as one word repeated, matches two rare bytes at every word, and each false match costs as
// much as 300 bytes. [bytes.Index] compares the first byte or two and falls to about 0.5 GB/s there, and would need
// data in lower case to fold.
type finder struct {
	text string
	fold bool
	// at are the places of the compared bytes in the text, ascending; bytes are the bytes there.
	at    [3]int
	bytes [3]byte
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
	f.at[0] = rarest(text, func(i int) bool { return true })
	f.at[1] = rarest(text, func(i int) bool { return text[i] != text[f.at[0]] })
	// The last place of the rarest byte left: far apart, the three do not match within one word.
	f.at[2] = rarest(text, func(i int) bool { return i != f.at[0] && i != f.at[1] })
	slices.Sort(f.at[:])
	for i, at := range f.at {
		f.bytes[i] = text[at]
	}
	return f
}

// rarest returns the last of the rarest bytes of the text at an allowed place, 0 without one.
func rarest(text string, may func(int) bool) int {
	at, best := 0, -1
	for i := range len(text) {
		if r := rarity(text[i]); r >= best && may(i) {
			at, best = i, r
		}
	}
	return at
}

// blind is the bit in which upper and lower case letters differ.
const blind = 'a' - 'A'

// index returns the first place of the text in data, or -1.
func (f *finder) index(data []byte) int {
	if !hasTriple {
		return f.indexPlain(data)
	}
	places := len(data) - len(f.text) + 1 // where the text may begin
	want, fold := f.bytes, byte(0)
	if f.fold {
		fold = blind
		for i := range want {
			want[i] |= blind
		}
	}
	start := f.at[0]
	at := 0
	for whole := places - tripleWidth; at <= whole; {
		n := (places - at) &^ (tripleWidth - 1)
		i := triple(&data[at+start], n, want[0], want[1], want[2], fold, f.at[1]-start, f.at[2]-start)
		if i < 0 {
			at += n
			break
		}
		if at += i; f.is(data[at:]) {
			return at
		}
		at++
	}
	for ; at < places; at++ {
		if data[at+start]|fold == want[0] && f.is(data[at:]) {
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

// indexPlain is index without special instructions of the processor.
func (f *finder) indexPlain(data []byte) int {
	if !f.fold {
		return bytes.Index(data, []byte(f.text))
	}
	places := len(data) - len(f.text) + 1
	upper := f.bytes[0]
	if 'a' <= upper && upper <= 'z' {
		upper &^= blind
	}
	for at := 0; at < places; {
		part := data[at+f.at[0] : min(at+window, places)+f.at[0]]
		i := bytes.IndexByte(part, f.bytes[0])
		if upper != f.bytes[0] {
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
