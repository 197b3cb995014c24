package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"kaged.dev/pkg/llm"
)

// maxName is the maximum length of a tool name that every provider accepts.
const maxName = 64

// Names encodes dotted tool names for providers, which accept only letters, digits, '_' and '-'. A dot becomes two
// underscores, any other invalid character one. If the result is not unique in a request, or too long, it ends in a
// hash of the original. The same tools in the same order always get the same names, so that prompt caches stay valid.
type Names struct {
	encoded map[string]string
	decoded map[string]string
}

// NewNames returns the encoding for the tools and the calls of a request.
func NewNames(req llm.Request) *Names {
	tools := make([]string, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = t.Name
	}
	return newNames(tools, appendCalls(nil, req.Messages))
}

// newNames returns the encoding for names of tools and then of calls.
func newNames(tools, calls []string) *Names {
	n := &Names{encoded: map[string]string{}, decoded: map[string]string{}}
	// Names that need no change come first: they stay as they are, even if another name is encoded to the same text.
	for _, changed := range []bool{false, true} {
		for _, name := range tools {
			n.add(name, changed)
		}
		for _, name := range calls {
			n.add(name, changed)
		}
	}
	return n
}

// Encode returns the name to send.
func (n *Names) Encode(name string) string {
	if s, ok := n.encoded[name]; ok {
		return s
	}
	return plainName(name)
}

// Decode returns the name that was sent as s. A name that was not sent, because the model invented it, is decoded as if
// it had been: two underscores become a dot.
func (n *Names) Decode(s string) string {
	if name, ok := n.decoded[s]; ok {
		return name
	}
	return strings.ReplaceAll(s, "__", ".")
}

func (n *Names) add(name string, changed bool) {
	if _, ok := n.encoded[name]; ok {
		return
	}
	s := plainName(name)
	if (s != name) != changed {
		return
	}
	if _, taken := n.decoded[s]; taken || len(s) > maxName {
		sum := sha256.Sum256([]byte(name))
		s = s[:min(len(s), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	n.encoded[name], n.decoded[s] = s, name
}

func plainName(name string) string {
	var b strings.Builder
	for _, c := range name {
		switch {
		case c == '.':
			b.WriteString("__")
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			b.WriteRune(c)
		default:
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}
