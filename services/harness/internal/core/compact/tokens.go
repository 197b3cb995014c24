package compact

import (
	"unicode/utf8"

	"kaged.dev/pkg/llm"
)

// messageTokens is the overhead of a message, and of a block that is not text, in tokens.
const messageTokens = 4

// The kinds of characters that tokenizers treat alike.
const (
	spaceKind = iota
	lineKind
	letterKind
	digitKind
	signKind
	wideKind
)

// kinds is the kind of each byte below 0x80.
var kinds = func() (table [utf8.RuneSelf]byte) {
	for c := range table {
		switch {
		case c == ' ' || c == '\t':
			table[c] = spaceKind
		case c == '\n' || c == '\r':
			table[c] = lineKind
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			table[c] = letterKind
		case '0' <= c && c <= '9':
			table[c] = digitKind
		default:
			table[c] = signKind
		}
	}
	return table
}()

// Tokens estimates the number of tokens of a text. It counts runs of similar characters as today's tokenizers split
// them: about six letters of a word, three digits, or two punctuation characters are a token. A single space belongs
// to the next word. A character of a script without spaces is a token.
func Tokens(text string) int64 {
	if len(text) < rememberedFrom {
		return count(text)
	}
	return remembered.tokens(text)
}

// count estimates a text anew.
func count(text string) int64 {
	n, run := int64(0), 0
	last := byte(spaceKind)
	flush := func() {
		switch last {
		case letterKind:
			n += int64(run+5) / 6
		case digitKind:
			n += int64(run+2) / 3
		case signKind:
			n += int64(run+1) / 2
		case lineKind:
			n++
		case spaceKind:
			if run > 1 {
				n++ // indentation; a single space is part of the next word
			}
		}
	}
	for i := 0; i < len(text); {
		kind, size := byte(wideKind), 1
		if c := text[i]; c < utf8.RuneSelf {
			kind = kinds[c]
		} else {
			r, width := utf8.DecodeRuneInString(text[i:])
			size = width
			if n++; r < 0x2E80 {
				n-- // a letter of an alphabet
				kind = letterKind
			}
		}
		if kind != last {
			flush()
			last, run = kind, 0
		}
		run++
		i += size
	}
	flush()
	return n
}

// blockTokens estimates the tokens of a block.
func blockTokens(b llm.Block) int64 {
	switch {
	case b.Text != nil:
		return Tokens(b.Text.Text)
	case b.Thinking != nil:
		// Opaque data is base64 on the wire, and providers count the reasoning behind it.
		return messageTokens + max(Tokens(b.Thinking.Text), int64(len(b.Thinking.Opaque))/3)
	case b.Call != nil:
		return messageTokens + Tokens(b.Call.Name) + Tokens(b.Call.Input)
	case b.Result != nil:
		return messageTokens + Tokens(b.Result.Content)
	}
	return 0
}

// MessageTokens estimates the tokens of a message.
func MessageTokens(m llm.Message) int64 {
	n := int64(messageTokens)
	for _, b := range m.Blocks {
		n += blockTokens(b)
	}
	return n
}

// FixedTokens estimates the tokens of a request without its messages: the system prompt and the tools.
func FixedTokens(system []string, tools []llm.Tool) int64 {
	n := int64(messageTokens)
	for _, s := range system {
		n += Tokens(s)
	}
	for _, t := range tools {
		n += 2*messageTokens + Tokens(t.Name) + Tokens(t.Description) + Tokens(string(t.Schema))
	}
	return n
}

// Meter corrects estimates by the counts of answered requests. The zero value corrects nothing.
type Meter struct {
	estimated, counted int64 // of the last answered request
	ratio              float64
	missed             float64 // mean relative error of the corrected estimates
	calls              int
}

// weight is the share of the newest request in the mean ratio. A provider's count with a ratio outside of leastRatio
// to mostly does not measure this text and is ignored.
const (
	weight             = 0.5
	leastRatio, mostly = 0.2, 5.0
)

// Tokens returns the corrected estimate of a request with the plain estimate estimated.
func (m *Meter) Tokens(estimated int64) int64 {
	if m.calls == 0 {
		return estimated
	}
	if estimated >= m.estimated {
		return m.counted + int64(m.ratio*float64(estimated-m.estimated))
	}
	return int64(float64(m.counted) * float64(estimated) / float64(m.estimated))
}

// Counted corrects the meter by a provider's count of input tokens, cached ones included, for a request with the
// plain estimate estimated.
func (m *Meter) Counted(estimated, counted int64) {
	if estimated <= 0 || counted <= 0 {
		return
	}
	now := float64(counted) / float64(estimated)
	if now < leastRatio || now > mostly {
		return
	}
	missed := abs(float64(m.Tokens(estimated))/float64(counted) - 1)
	if m.calls == 0 {
		m.ratio, m.missed = now, missed
	} else {
		// The text added since the last request is measured alone, because kinds of text differ.
		if grown := estimated - m.estimated; grown > 0 && counted > m.counted {
			fresh := float64(counted-m.counted) / float64(grown)
			if fresh >= leastRatio && fresh <= mostly {
				now = fresh
			}
		}
		m.ratio += weight * (now - m.ratio)
		m.missed += weight * (missed - m.missed)
	}
	m.estimated, m.counted = estimated, counted
	m.calls++
}

// Calibrated reports whether the meter has counted an answered request.
func (m *Meter) Calibrated() bool { return m.calls > 0 }

// Error returns the mean relative error of the estimates; false before the second answered request.
func (m *Meter) Error() (float64, bool) { return m.missed, m.calls > 1 }

func abs(f float64) float64 {
	if f < 0 {
		return -f
	}
	return f
}
