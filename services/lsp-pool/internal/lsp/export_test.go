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
