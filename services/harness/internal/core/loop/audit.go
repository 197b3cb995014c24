package loop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// The events of the record of model requests.
const (
	preGeneration     = "agent.pre_generation"
	preGenerationStep = "agent.pre_generation_step"
	// requestLeft is the record of one attempt at a provider. It and the records above are on disk before the request
	// is sent.
	requestLeft = "agent.request"
)

// maxRecordBytes is the most bytes of new items in one record. A single larger item has a record of its own.
const maxRecordBytes = 1 << 20

// auditProcessor records every model request, so that an operator can see exactly the bytes that a model received.
//
// A request is a list of items: its parameters, its system prompt, its tools, and each message. The items form a hash
// chain: the hash after an item is SHA-256 (hex) of the hash before it, a newline, and the item's canonical JSON
// (keys sorted, minimal escapes); the hash before the first is empty. A record holds the hash of the chain it
// continues (base_hash, null for a new one), the items that came since (new_items), and the hash and number of items
// after them (hash, item_count). Earlier items are not written again, so a session's record grows linearly with its
// conversation. If the beginning of a request differs from the record, the whole request is recorded again.
//
// The note of a request is no item, because the next request lacks it and would then not begin as recorded. The last
// record of a request holds the note beside the items.
type auditProcessor struct {
	emit      func(contract.Event) error
	agentPath string
	// invocation is empty for the root agent. The chain of another invocation is not continued by later runs.
	invocation string
	head       contract.AuditHead // the head of the chain

	recorded snapshot // the last request in the chain
	// chained is the head of the chain after recorded, and alias is that request's alias; chained is zero if unknown.
	chained contract.AuditHead
	alias   string
}

// ProcessInput records the first request of a run. It continues the session's chain if the request begins as
// recorded.
func (a *auditProcessor) ProcessInput(_ context.Context, call *Call) error {
	before, known := len(a.recorded.messages), a.chained == a.head && a.alias == call.Alias
	a.chained = contract.AuditHead{}
	if a.head.Items > 0 && known && a.recorded.take(&call.Request) {
		return a.record(preGeneration, call, a.head, messageItems(call.Request.Messages[before:]))
	}
	items := requestItems(call)
	base := contract.AuditHead{}
	if n := a.head.Items; n > 0 && n <= len(items) && chain("", items[:n]) == a.head.Hash {
		base = a.head
	}
	a.recorded.take(&call.Request)
	return a.record(preGeneration, call, base, items[base.Items:])
}

// ProcessInputStep records the new items since the last request of the run.
func (a *auditProcessor) ProcessInputStep(_ context.Context, call *Call) error {
	before := len(a.recorded.messages)
	a.chained = contract.AuditHead{}
	if a.recorded.take(&call.Request) {
		return a.record(preGenerationStep, call, a.head, messageItems(call.Request.Messages[before:]))
	}
	return a.record(preGenerationStep, call, contract.AuditHead{}, requestItems(call))
}

// ProcessOutputChunk does nothing: the model's output is part of the next request.
func (a *auditProcessor) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }

// record emits the items that continue base, in as many records as needed, and moves the head.
func (a *auditProcessor) record(event string, call *Call, base contract.AuditHead, items []item) error {
	for first := true; first || len(items) > 0; first = false {
		n := batch(items)
		next := contract.AuditHead{Hash: chain(base.Hash, items[:n]), Items: base.Items + n}
		values, err := decodeItems(items[:n])
		if err != nil {
			return err
		}
		payload := map[string]any{
			"step": call.Step, "tool_count": len(call.Request.Tools), "message_count": len(call.Request.Messages),
			"provider": call.Target.Provider, "model": call.Target.Model,
			"base_hash": nil, "hash": next.Hash, "item_count": next.Items, "new_items": values,
		}
		if a.invocation != "" {
			payload["invocation_id"] = a.invocation
		}
		if n == len(items) && call.Request.Note != "" {
			payload["note"] = call.Request.Note
		}
		if base.Items > 0 {
			payload["base_hash"] = base.Hash
		}
		if err := a.emit(contract.NewRecord(event, a.agentPath, payload)); err != nil {
			return err
		}
		base, items = next, items[n:]
	}
	call.Hash = base.Hash
	a.chained, a.alias = base, call.Alias
	if a.head == base {
		return nil
	}
	a.head = base
	if a.invocation != "" {
		return nil
	}
	return a.emit(contract.AuditMoved{Head: a.head})
}

// batch returns the number of items that go into one record.
func batch(items []item) int {
	size := 0
	for i, item := range items {
		size += len(item.json)
		if size > maxRecordBytes && i > 0 {
			return i
		}
	}
	return len(items)
}

// chain returns the hash of a chain after the given items are added.
func chain(hash string, items []item) string {
	h := sha256.New()
	var sum [sha256.Size]byte
	text := make([]byte, 0, 2*sha256.Size+1)
	text = append(text, hash...)
	for _, item := range items {
		h.Reset()
		h.Write(text)
		h.Write([]byte{'\n'})
		h.Write(item.json)
		text = hex.AppendEncode(text[:0], h.Sum(sum[:0]))
	}
	return string(text)
}

// requestItems returns the items of a whole request. The first item names the model's alias: the model itself may
// change between calls with equal items, and stands beside them in the record.
func requestItems(call *Call) []item {
	req := &call.Request
	items := []item{
		{json: canonical(paramsItem{"params", req.MaxOutputTokens, call.Alias})},
		{json: canonical(systemItem{"system", nonNil(req.System)})},
		toolsItemOf(req.Tools),
	}
	return append(items, messageItems(req.Messages)...)
}

func messageItems(messages []llm.Message) []item {
	items := make([]item, len(messages))
	for i, m := range messages {
		blocks := make([]blockItem, len(m.Blocks))
		for j, b := range m.Blocks {
			blocks[j] = newBlockItem(b)
		}
		items[i].json = canonical(messageItem{blocks, "message", string(m.Role)})
	}
	return items
}

// The items. Their fields are in the order of their JSON names, which makes the JSON canonical.
type (
	paramsItem struct {
		Kind            string `json:"kind"`
		MaxOutputTokens int    `json:"max_output_tokens"`
		Model           string `json:"model"`
	}
	systemItem struct {
		Kind   string   `json:"kind"`
		System []string `json:"system"`
	}
	toolsItem struct {
		Kind  string     `json:"kind"`
		Tools []toolItem `json:"tools"`
	}
	toolItem struct {
		Description string          `json:"description"`
		Name        string          `json:"name"`
		Schema      json.RawMessage `json:"schema"`
	}
	messageItem struct {
		Blocks []blockItem `json:"blocks"`
		Kind   string      `json:"kind"`
		Role   string      `json:"role"`
	}
	blockItem struct {
		CallID       string `json:"call_id,omitempty"`
		Content      string `json:"content,omitempty"`
		Input        string `json:"input,omitempty"`
		IsError      bool   `json:"is_error,omitempty"`
		Name         string `json:"name,omitempty"`
		OpaqueSHA256 string `json:"opaque_sha256,omitempty"`
		Text         string `json:"text,omitempty"`
		Type         string `json:"type"`
	}
)

func newBlockItem(b llm.Block) blockItem {
	switch {
	case b.Text != nil:
		return blockItem{Type: "text", Text: b.Text.Text}
	case b.Thinking != nil:
		item := blockItem{Type: "thinking", Text: b.Thinking.Text}
		if len(b.Thinking.Opaque) > 0 {
			sum := sha256.Sum256(b.Thinking.Opaque)
			item.OpaqueSHA256 = hex.EncodeToString(sum[:])
		}
		return item
	case b.Call != nil:
		return blockItem{Type: "tool_call", CallID: b.Call.ID, Name: b.Call.Name, Input: b.Call.Input}
	case b.Result != nil:
		return blockItem{
			Type: "tool_result", CallID: b.Result.CallID, Name: b.Result.Name, Content: b.Result.Content,
			IsError: b.Result.IsError,
		}
	}
	return blockItem{Type: "empty"}
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// canonical returns v as JSON without HTML escapes and without a final newline.
func canonical(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// All values are strings, numbers or valid JSON.
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// canonicalSchema returns a schema with sorted keys. Invalid JSON becomes a JSON string.
func canonicalSchema(schema json.RawMessage) json.RawMessage {
	var v any
	if err := json.Unmarshal(schema, &v); err != nil {
		return canonical(string(schema))
	}
	return canonical(v)
}

// decodeItems returns items as JSON values.
func decodeItems(items []item) (values []any, err error) {
	values = make([]any, len(items))
	for i, item := range items {
		if values[i], err = item.decoded(); err != nil {
			return nil, err
		}
	}
	return values, nil
}
