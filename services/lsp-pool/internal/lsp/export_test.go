package lsp

import (
	"encoding/json"
	"io"
)

// ReadFrames returns the messages of a connection up to its end or the first broken frame.
func ReadFrames(conn io.ReadWriteCloser, most int) (list [][]byte) {
	f := newFrames(conn, most)
	defer f.Close()
	for {
		var raw json.RawMessage
		if f.ReadObject(&raw) != nil {
			return list
		}
		list = append(list, raw)
	}
}

// Kept is what jsonrpc2 is given of a message, and the result that was kept for the first call, while as many calls
// are expected.
func Kept(message string, calls int) (rest, result string) {
	r := results{calls: map[uint64]json.RawMessage{}}
	for range calls {
		r.expect()
	}
	rest = string(r.keep([]byte(message)))
	return rest, string(r.take(1))
}
