package lsp

import (
	"encoding/json"
	"strconv"
	"sync"
)

// results keep the results of calls raw. jsonrpc2 decodes each message several times, once to values of any type, so it
// is given a response without its result.
type results struct {
	mu    sync.Mutex // guards the fields below
	last  uint64     // the id of the last call
	calls map[uint64]json.RawMessage
}

// expect returns the id of a new call. The caller takes the result, also of a call that fails.
func (r *results) expect() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.calls[r.last] = nil
	return r.last
}

// take returns the result of a call, nil if there is none.
func (r *results) take(id uint64) json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw := r.calls[id]
	delete(r.calls, id)
	return raw
}

// keep keeps the result of an expected call, and returns the message without it. Other messages are returned
// unchanged, also those that break the protocol.
func (r *results) keep(message []byte) []byte {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if !r.expects() || json.Unmarshal(message, &m) != nil || m.Method != nil || m.Result == nil ||
		m.Error != nil && string(m.Error) != "null" {
		return message
	}
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	if err != nil {
		return message
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.calls[id]; !ok || was != nil { // of two responses to a call the first counts
		return message
	}
	r.calls[id] = m.Result
	return append(strconv.AppendUint([]byte(`{"result":0,"id":`), id, 10), '}')
}

// expects reports whether a call has no result yet.
func (r *results) expects() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls) > 0
}
