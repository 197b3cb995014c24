package google

import (
	"bytes"
	"encoding/json"
	"strings"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/modelmeta"
	"kaged.dev/pkg/llm/wire"
)

// unsigned replaces the missing signature of a call that another model made. The API refuses unsigned calls; Google
// defines this value for the purpose.
const unsigned = "skip_thought_signature_validator"

// request is the body of streamGenerateContent.
type request struct {
	Contents []content `json:"contents"`
	System   *content  `json:"systemInstruction,omitempty"`
	Tools    []toolset `json:"tools,omitempty"`
	Config   config    `json:"generationConfig,omitzero"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// part is a text, a call or a result. An empty text with a signature has to be sent.
type part struct {
	Text      *string   `json:"text,omitempty"`
	Thought   bool      `json:"thought,omitempty"`
	Signature string    `json:"thoughtSignature,omitempty"`
	Call      *call     `json:"functionCall,omitempty"`
	Response  *response `json:"functionResponse,omitempty"`
}

type call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// response is a tool's result: its text under output, or under error if the tool failed.
type response struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type toolset struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema"`
}

type config struct {
	MaxOutputTokens int       `json:"maxOutputTokens,omitempty"`
	Thinking        *thinking `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	IncludeThoughts bool `json:"includeThoughts"`
}

// The roles of contents. Results have the role of the user.
const (
	roleUser  = "user"
	roleModel = "model"
)

// body returns the encoded request. Equal conversations give equal bytes, so that Google's cache finds the prefix of
// the next request.
func (d *Driver) body(req llm.Request, names *wire.Names) ([]byte, error) {
	r := request{
		Contents: newContents(req, names, d.origin(req.Model)).encode(llm.Normalize(req.Conversation())),
		System:   system(req.System),
		Tools:    tools(req.Tools, names),
		Config:   config{MaxOutputTokens: req.MaxOutputTokens},
	}
	// Models without thinking refuse a request for it. An unknown Gemini may be newer than the catalogue, or an old
	// one.
	meta, known := modelmeta.Lookup(d.target.Provider, Name, req.Model)
	if known && meta.Reasoning || !known && thirdGeneration(req.Model) {
		r.Config.Thinking = &thinking{IncludeThoughts: true}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func system(texts []string) *content {
	c := &content{}
	for _, s := range texts {
		if strings.TrimSpace(s) != "" {
			c.Parts = append(c.Parts, part{Text: &s})
		}
	}
	if len(c.Parts) == 0 {
		return nil
	}
	return c
}

func tools(offered []llm.Tool, names *wire.Names) []toolset {
	if len(offered) == 0 {
		return nil
	}
	set := toolset{Functions: make([]function, len(offered))}
	for i, t := range offered {
		set.Functions[i] = function{
			Name: names.Encode(t.Name), Description: t.Description, Schema: wire.Schema(t.Schema),
		}
	}
	return []toolset{set}
}

// contents encodes a conversation.
type contents struct {
	names  *wire.Names
	origin string
	// strict is true if the model refuses unsigned calls.
	strict bool
	// called maps the ids of calls to their names.
	called map[string]string
	out    []content
}

func newContents(req llm.Request, names *wire.Names, origin string) *contents {
	return &contents{names: names, origin: origin, strict: thirdGeneration(req.Model), called: map[string]string{}}
}

// thirdGeneration reports whether a model is a Gemini of the third generation or later. All of these think, and
// refuse calls without a signature.
func thirdGeneration(model string) bool {
	name := model[strings.LastIndexByte(model, '/')+1:]
	generation, gemini := strings.CutPrefix(name, "gemini-")
	return gemini && !strings.HasPrefix(generation, "1") && !strings.HasPrefix(generation, "2")
}

// encode encodes a normalized conversation. The user speaks first, and results are a content of their own, right
// after their calls.
func (c *contents) encode(conversation []llm.Message) []content {
	asked := lastQuestion(conversation)
	results := false // the last content holds results
	for i, m := range conversation {
		switch m.Role {
		case llm.RoleAssistant:
			parts := c.turn(m.Blocks, i > asked)
			if len(parts) > 0 && len(c.out) == 0 {
				begin := "(The conversation begins with your answer.)"
				c.add(roleUser, []part{{Text: &begin}}, false)
			}
			c.add(roleModel, parts, true)
			results = false
		case llm.RoleTool:
			c.add(roleUser, c.results(m.Blocks), false)
			results = true
		default:
			c.add(roleUser, texts(m.Blocks), !results)
			results = false
		}
	}
	return c.out
}

// add appends a content. With join it extends the last content if that has the same role.
func (c *contents) add(role string, parts []part, join bool) {
	n := len(c.out)
	switch {
	case len(parts) == 0:
	case join && n > 0 && c.out[n-1].Role == role:
		c.out[n-1].Parts = append(c.out[n-1].Parts, parts...)
	default:
		c.out = append(c.out, content{Role: role, Parts: parts})
	}
}

// lastQuestion returns the index of the last user message, -1 if there is no such message.
func lastQuestion(conversation []llm.Message) int {
	for i := len(conversation) - 1; i >= 0; i-- {
		if conversation[i].Role == llm.RoleUser {
			return i
		}
	}
	return -1
}

func texts(blocks []llm.Block) []part {
	var parts []part
	for _, b := range blocks {
		if b.Text != nil && strings.TrimSpace(b.Text.Text) != "" {
			parts = append(parts, part{Text: &b.Text.Text})
		}
	}
	return parts
}

func (c *contents) results(blocks []llm.Block) []part {
	parts := make([]part, 0, len(blocks))
	for _, b := range blocks {
		name, ok := c.called[b.Result.CallID]
		if !ok {
			name = b.Result.Name
		}
		key := "output"
		if b.Result.IsError {
			key = "error"
		}
		parts = append(parts, part{Response: &response{
			ID: wire.CallID(b.Result.CallID), Name: c.names.Encode(name),
			Response: map[string]string{key: b.Result.Content},
		}})
	}
	return parts
}

// turn encodes a turn of the model. The first call of a turn needs a signature. If its signature is not from this
// model, and the turn belongs to the current question, a strict model gets the value unsigned.
func (c *contents) turn(blocks []llm.Block, current bool) []part {
	var parts []part
	var next opaque // a signature for a part that follows
	calls := 0
	for _, b := range blocks {
		switch {
		case b.Thinking != nil:
			o, ok := opaqueOf(b.Thinking, c.origin)
			if !ok {
				continue
			}
			parts, next = c.thought(parts, b.Thinking.Text, o)
		case b.Text != nil:
			p := part{Text: &b.Text.Text, Signature: next.take(onText)}
			if p.Signature != "" || strings.TrimSpace(b.Text.Text) != "" {
				parts = append(parts, p)
			}
		case b.Call != nil:
			c.called[b.Call.ID] = b.Call.Name
			p := part{Signature: next.take(onCall), Call: &call{
				ID: wire.CallID(b.Call.ID), Name: c.names.Encode(b.Call.Name), Args: wire.ObjectInput(b.Call.Input),
			}}
			if p.Signature == "" && calls == 0 && c.strict && current {
				p.Signature = unsigned
			}
			calls++
			parts = append(parts, p)
		}
	}
	return parts
}

// thought encodes a thinking block of this model. It returns the block's signature if that belongs to a later part.
func (c *contents) thought(parts []part, text string, o opaque) ([]part, opaque) {
	if text != "" || o.On == onThought && o.Signature != "" {
		p := part{Text: &text, Thought: true}
		if o.On == onThought {
			p.Signature = o.Signature
		}
		parts = append(parts, p)
	}
	switch o.On {
	case onEmpty:
		empty := ""
		return append(parts, part{Text: &empty, Signature: o.Signature}), opaque{}
	case onText, onCall:
		return parts, o
	}
	return parts, opaque{}
}

// The parts that a signature can belong to.
const (
	onThought = ""      // the thinking itself
	onText    = "text"  // the text after the block
	onCall    = "call"  // the call after the block
	onEmpty   = "empty" // an empty text after the block
)

// opaque is the data of a thinking block besides its text.
type opaque struct {
	// Origin is the provider and the model of the data.
	Origin string `json:"origin"`
	// Signature is the signature as received. On is the part that it belongs to.
	Signature string `json:"signature,omitempty"`
	On        string `json:"on,omitempty"`
}

// take returns the signature if it belongs to a part of this kind. A signature without its part is dropped.
func (o *opaque) take(on string) string {
	s := o.Signature
	if o.On != on {
		s = ""
	}
	*o = opaque{}
	return s
}

func (o opaque) encode() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return b
}

// opaqueOf returns the data of a thinking block; false if it has another origin and would be refused.
func opaqueOf(t *llm.Thinking, origin string) (opaque, bool) {
	var o opaque
	if t.Driver != Name || json.Unmarshal(t.Opaque, &o) != nil || o.Origin != origin {
		return opaque{}, false
	}
	return o, true
}
