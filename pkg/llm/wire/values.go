package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"

	"kaged.dev/pkg/jsondepth"
	"kaged.dev/pkg/llm"
)

// CallInput returns a model's input of a call in the form of llm.ToolCall: a JSON object, {} for an empty text, or the
// raw text of anything else.
func CallInput(raw string) string {
	switch s := strings.TrimSpace(raw); {
	case s == "" || s == "null":
		return "{}"
	case s[0] == '{' && json.Valid([]byte(s)):
		return s
	}
	return raw
}

// ObjectInput returns the input of a call as a JSON object, for sending it back. Providers refuse other values and JSON
// that nests deeper than their parsers allow, so a model's invalid text is wrapped in an object.
func ObjectInput(input string) json.RawMessage {
	s := CallInput(input)
	if s[0] == '{' && jsondepth.Of(s) <= jsondepth.Max && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	wrapped, _ := json.Marshal(map[string]string{"invalid_json": input})
	return wrapped
}

// Schema returns a tool's schema with an object at its root, as providers require.
func Schema(schema json.RawMessage) json.RawMessage {
	var root struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(schema, &root) == nil && root.Type == "object" {
		return schema
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(schema, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{"properties": json.RawMessage("{}")}
	}
	fields["type"] = json.RawMessage(`"object"`)
	out, err := json.Marshal(fields)
	if err != nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return out
}

// CallID returns a call's id in the form that providers accept: at most 40 letters, digits, '_' and '-'. Most ids are
// returned unchanged; others, which come from other providers, get a hash that keeps them distinct.
func CallID(id string) string {
	const longest = 40
	clean := strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, id)
	if clean == id && id != "" && len(id) <= longest {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return clean[:min(len(clean), longest-17)] + "_" + hex.EncodeToString(sum[:8])
}

// callIDs assigns the ids of an answer's calls. Results are stored by id for the life of a session, and some servers
// send no ids, or the same ids in every answer.
type callIDs struct {
	before []llm.Message
	known  *idSet          // the ids of before; nil until the first call of the answer
	used   map[string]bool // the ids of the answer
}

// newCallIDs returns the ids of a call. A body that was made by a [Writer] has the ids of its conversation.
func newCallIDs(c Call) *callIDs {
	ids := &callIDs{before: c.Request.Messages, used: map[string]bool{}}
	if c.Body != nil {
		ids.known = c.Body.ids
	}
	return ids
}

// unique returns id, or a new one if id is empty or was used before.
func (c *callIDs) unique(id string) string {
	if c.known == nil {
		c.known = &idSet{}
		c.known.add(c.before)
	}
	if id == "" || c.used[id] || c.known.has(id) {
		id = NewCallID()
	}
	c.used[id] = true
	return id
}

// idSet is the set of the ids of a conversation's calls. A [Writer] keeps it between requests: making it for each
// answer took 0.5 ms after 2,000 messages. It is safe for concurrent use: the answer to a request may still be read
// when the next request adds its messages.
type idSet struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

// add adds the ids of the calls in messages.
func (s *idSet) add(messages []llm.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		for _, b := range m.Blocks {
			if b.Call == nil {
				continue
			}
			if s.ids == nil {
				s.ids = map[string]struct{}{}
			}
			s.ids[b.Call.ID] = struct{}{}
		}
	}
}

func (s *idSet) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

func (s *idSet) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}

// NewCallID returns an id for a call without one from the provider.
func NewCallID() string { return "call_" + strings.ToLower(rand.Text()) }
