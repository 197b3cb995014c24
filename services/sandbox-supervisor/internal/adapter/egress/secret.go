package egress

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
)

// Secret is a text that is never shown.
type Secret string

const hidden = "[secret]"

// String returns no secret.
func (Secret) String() string { return hidden }

// GoString returns no secret.
func (Secret) GoString() string { return hidden }

// LogValue returns no secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText returns no secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Credential is what the gate adds to requests to a host.
type Credential struct {
	// Host is a name in lower case, Port that of its TLS.
	Host string
	Port uint16
	// Header is the header that carries it, Value the header's value.
	Header string
	Value  Secret
	// Missing says why there is no value, empty where there is one.
	Missing string
}

// minSecret is the shortest word that is overwritten: shorter ones are part of any text.
const minSecret = 8

// words returns what must not come back: the value, and where it is "Bearer token" the token.
func (c *Credential) words() (words [][]byte) {
	value := strings.TrimSpace(string(c.Value))
	for _, word := range []string{value, value[strings.LastIndexByte(value, ' ')+1:]} {
		if len(word) >= minSecret {
			words = append(words, []byte(word))
		}
	}
	return words
}

// mask overwrites words in text.
func mask(text []byte, words [][]byte) {
	for _, word := range words {
		for rest := text; len(word) > 0; {
			at := bytes.Index(rest, word)
			if at < 0 {
				break
			}
			for i := range word {
				rest[at+i] = '*'
			}
			rest = rest[at+len(word):]
		}
	}
}

// masking is a body in which words are overwritten, also where they come in pieces. It holds back only what may be the
// beginning of one.
type masking struct {
	io.ReadCloser
	words [][]byte
	end   func() // called when all is read
	held  []byte // read and not yet given
	clear int    // how much of held may be given
	err   error
	in    []byte
}

// Read reads what is masked.
func (m *masking) Read(p []byte) (int, error) {
	if m.in == nil {
		m.in = make([]byte, 32<<10)
	}
	for m.clear == 0 && m.err == nil && len(p) > 0 {
		var n int
		n, m.err = m.ReadCloser.Read(m.in)
		m.held = append(m.held, m.in[:n]...)
		mask(m.held, m.words)
		m.clear = len(m.held) - beginning(m.held, m.words)
		if m.err != nil {
			m.clear = len(m.held)
			m.end()
		}
	}
	n := copy(p, m.held[:m.clear])
	m.held = append(m.held[:0], m.held[n:]...)
	m.clear -= n
	if m.clear > 0 || len(p) == 0 {
		return n, nil
	}
	return n, m.err
}

// beginning returns how many bytes at the end of text may be the beginning of one of words.
func beginning(text []byte, words [][]byte) int {
	longest := 0
	for _, word := range words {
		for n := min(len(word)-1, len(text)); n > longest; n-- {
			if bytes.HasSuffix(text, word[:n]) {
				longest = n
			}
		}
	}
	return longest
}
