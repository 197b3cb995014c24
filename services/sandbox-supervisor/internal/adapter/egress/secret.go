package egress

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
)

// Secret is a text that prints as "[secret]".
type Secret string

const hidden = "[secret]"

// String implements fmt.Stringer without the secret.
func (Secret) String() string { return hidden }

// GoString implements fmt.GoStringer without the secret.
func (Secret) GoString() string { return hidden }

// LogValue implements slog.LogValuer without the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler without the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Credential is a header that the gate adds to requests to a host.
type Credential struct {
	// Host is the name in lower case, Port its TLS port.
	Host string
	Port uint16
	// Header is the header's name, Value its value.
	Header string
	Value  Secret
	// Missing is the reason for a missing value, empty if there is a value.
	Missing string
}

// minSecret is the length of the shortest masked word; shorter ones occur in any text.
const minSecret = 8

// words returns the words to mask: the value, and the token of "Bearer token".
func (c *Credential) words() (words [][]byte) {
	value := strings.TrimSpace(string(c.Value))
	for _, word := range []string{value, value[strings.LastIndexByte(value, ' ')+1:]} {
		if len(word) >= minSecret {
			words = append(words, []byte(word))
		}
	}
	return words
}

// mask overwrites words in text with asterisks.
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

// masking is a body with words overwritten, even if one spans several reads. It holds back only bytes that may begin a
// word.
type masking struct {
	io.ReadCloser
	words [][]byte
	end   func() // called at the end of the body
	held  []byte // read and not yet returned
	clear int    // the bytes of held that may be returned
	err   error
	in    []byte
}

// Read implements io.Reader.
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

// beginning returns the number of bytes at the end of text that may begin one of words.
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
