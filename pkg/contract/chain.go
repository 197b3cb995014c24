package contract

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"kaged.dev/pkg/llm"
)

// Chain is the hash of the beginning of a stored conversation. It covers everything of its messages that a request is
// built from: authors, blocks, stored positions, and the marks against compaction. The zero value is the chain of an
// empty conversation. A message and its parts, split between blocks, have the same chain.
type Chain struct{ sum [sha256.Size]byte }

// With returns the chain after a further message.
func (c Chain) With(m llm.Message, from Source, alwaysKeep bool) Chain {
	for _, b := range m.Blocks {
		c = c.block(m.Role, from, alwaysKeep, b)
	}
	return c
}

// String returns the hash in hex, "" for an empty conversation.
func (c Chain) String() string {
	if c == (Chain{}) {
		return ""
	}
	return hex.EncodeToString(c.sum[:])
}

func (c Chain) block(role llm.Role, from Source, alwaysKeep bool, b llm.Block) Chain {
	h := sha256.New()
	h.Write(c.sum[:])
	var head []byte
	field := func(s string) {
		head = binary.AppendUvarint(head[:0], uint64(len(s)))
		h.Write(head)
		h.Write([]byte(s))
	}
	flag := func(set bool) {
		if set {
			field("1")
		} else {
			field("")
		}
	}
	field(string(role))
	field(from.MessageID)
	field(string(binary.AppendVarint(nil, int64(from.Step))))
	flag(alwaysKeep)
	switch {
	case b.Text != nil:
		field("text")
		field(b.Text.Text)
	case b.Thinking != nil:
		field("thinking")
		field(b.Thinking.Text)
		field(string(b.Thinking.Opaque))
		field(b.Thinking.Driver)
	case b.Call != nil:
		field("call")
		field(b.Call.ID)
		field(b.Call.Name)
		field(b.Call.Input)
	case b.Result != nil:
		field("result")
		field(b.Result.CallID)
		field(b.Result.Name)
		field(b.Result.Content)
		flag(b.Result.IsError)
	default:
		return c // the wire form leaves out an empty block
	}
	h.Sum(c.sum[:0])
	return c
}
