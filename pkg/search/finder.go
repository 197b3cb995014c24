package search

import (
	"bytes"
	"slices"
	"strings"
)

// finder finds a text in data, in any case if fold is set; the text is then lower-case ASCII.
//
// It compares three bytes of the text at their distances, at 32 positions at a time if the processor has AVX2, and the
// rest of the text at each match. This is the method of the memchr crate, which ripgrep uses, with a third byte. In a
// text of common words, such as one repeated word, two rare bytes match at every word, and each false match costs as
// much as 300 bytes. [bytes.Index] compares the first byte or two and falls to about 0.5 GB/s in such a text, and would
// need lower-case data to fold.
type finder struct {
	text string
	fold bool
	// at are the positions of the compared bytes in the text, ascending; bytes are the bytes at them.
	at    [3]int
	bytes [3]byte
}

// common are the bytes with a frequency of at least 1 in 2500 in Go's own sources, the most common first.
const common = " et\tr0n\naiso,xlcfdu.p1()/m:g2=h\"bS_T4AE{}y3vR6\\8IOCPDMk5LXFw9NVB7[]U*-GH;!+W&Y<z'%|K>Qqj`$"

// rarity is higher for a rarer byte.
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
	// The last position of the rarest remaining byte: if the three are far apart, they do not match within one word.
	f.at[2] = rarest(text, func(i int) bool { return i != f.at[0] && i != f.at[1] })
	slices.Sort(f.at[:])
	for i, at := range f.at {
		f.bytes[i] = text[at]
	}
	return f
}

// rarest returns the last position of the rarest byte of the text at a permitted position, 0 without one.
func rarest(text string, may func(int) bool) int {
	at, best := 0, -1
	for i := range len(text) {
		if r := rarity(text[i]); r >= best && may(i) {
			at, best = i, r
		}
	}
	return at
}

// blind is the bit that distinguishes upper and lower case letters.
const blind = 'a' - 'A'

// index returns the first position of the text in data, or -1.
func (f *finder) index(data []byte) int {
	if !hasTriple {
		return f.indexPlain(data)
	}
	places := len(data) - len(f.text) + 1 // number of positions where the text may begin
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

// window is the number of bytes that the plain search checks for one case of a byte before it checks for the other.
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
