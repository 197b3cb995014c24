package recall

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the maximum length of a word in characters; the rest of a longer one, such as encoded data, is ignored.
const maxWord = 64

// Words calls yield with each word of a text, in the form in which words are compared: letters folded to lower case,
// without accents, compatible characters unified. A compound such as sessionCookieTTL or HTTPServer yields its parts
// and itself; scripts without spaces between words yield pairs of neighbouring characters.
func Words(text string, yield func(word string)) {
	var s splitter
	s.yield = yield
	for len(text) > 0 {
		end := plain(text)
		if end > 0 {
			s.ascii(text[:end])
		} else {
			end = other(text)
			s.any(text[:end])
		}
		text = text[end:]
	}
}

// plain returns the length of the ASCII beginning of the text, up to the end of a word.
func plain(text string) int {
	whole := 0
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			return whole
		}
		if !asciiWord(c) {
			whole = i + 1
		}
	}
	return len(text)
}

// other returns the end of the run of words at the beginning of a text that is not all ASCII.
func other(text string) int {
	seen := false
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			seen = true
		} else if seen && !asciiWord(c) {
			return i
		}
	}
	return len(text)
}

func asciiWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

type splitter struct {
	yield func(string)
	runes []rune
	lower []rune
}

// ascii splits ASCII text, without copying words in lower case.
func (s *splitter) ascii(text string) {
	for i := 0; i < len(text); {
		if !asciiWord(text[i]) {
			i++
			continue
		}
		end, upper := i, false
		for end < len(text) && asciiWord(text[end]) {
			upper = upper || 'A' <= text[end] && text[end] <= 'Z'
			end++
		}
		switch word := text[i:end]; {
		case !upper:
			s.yield(word[:min(len(word), maxWord)])
		default:
			s.compound([]rune(word))
		}
		i = end
	}
}

// any splits text of any script.
func (s *splitter) any(text string) {
	s.runes = s.runes[:0]
	for _, r := range norm.NFC.String(strip(norm.NFKD.String(text))) {
		if inWord(r) {
			s.runes = append(s.runes, r)
			continue
		}
		s.run()
	}
	s.run()
}

// strip removes accents. Marks that form another letter, as in Indic scripts, stay.
func strip(text string) string {
	return strings.Map(func(r rune) rune {
		if 0x300 <= r && r <= 0x36F {
			return -1
		}
		return r
	}, text)
}

func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r)
}

// run yields the words of a run of letters and digits.
func (s *splitter) run() {
	rest := s.runes
	for len(rest) > 0 {
		dense, end := isDense(rest[0]), 1
		for end < len(rest) && isDense(rest[end]) == dense {
			end++
		}
		if dense {
			s.pairs(rest[:end])
		} else {
			s.compound(rest[:end])
		}
		rest = rest[end:]
	}
	s.runes = s.runes[:0]
}

// longVowel is a Japanese mark that belongs to no script.
const longVowel = 'ー'

// isDense reports whether a character belongs to a script without spaces between words.
func isDense(r rune) bool {
	return r == longVowel || r >= 0xE00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func (s *splitter) pairs(run []rune) {
	if len(run) == 1 {
		s.yield(string(run))
	}
	for i := range len(run) - 1 {
		s.yield(string(run[i : i+2]))
	}
}

// compound yields a word, and its parts if the case of its letters shows any.
func (s *splitter) compound(word []rune) {
	from := 0
	for i := 1; i < len(word); i++ {
		begins := unicode.IsUpper(word[i]) && (!unicode.IsUpper(word[i-1]) || i+1 < len(word) && unicode.IsLower(word[i+1]))
		if begins && i-from > 1 {
			s.folded(word[from:i])
			from = i
		}
	}
	if from > 0 {
		s.folded(word[from:])
	}
	s.folded(word)
}

func (s *splitter) folded(word []rune) {
	s.lower = s.lower[:0]
	for _, r := range word[:min(len(word), maxWord)] {
		s.lower = append(s.lower, unicode.ToLower(r))
	}
	s.yield(string(s.lower))
}
