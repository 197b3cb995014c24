package terminal

import (
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Prefix is the prefix of a terminal's channel name; the id of its process follows.
const Prefix = "pty:"

// The first byte of a binary frame. In an addressed frame the id of the process follows it.
const (
	plainData      = 0x01
	plainEvent     = 0x02
	addressedData  = 0x11
	addressedEvent = 0x12
)

// idLength is the length of a process id in bytes.
const idLength = 26

// Data returns a binary frame with output. An empty id makes it a plain frame.
func Data(id string, output []byte) []byte { return frame(plainData, addressedData, id, output) }

// Event returns a binary frame with a control event in JSON. An empty id makes it a plain frame.
func Event(id string, event []byte) []byte { return frame(plainEvent, addressedEvent, id, event) }

func frame(plain, addressed byte, id string, data []byte) []byte {
	f := make([]byte, 0, 1+len(id)+len(data))
	if id == "" {
		f = append(f, plain)
	} else {
		f = append(append(f, addressed), id...)
	}
	return append(f, data...)
}

// Input parses a client's binary frame into the process id and the input. The id of a plain frame is "". It fails
// with bad_request for any other frame.
func Input(frame []byte) (id string, keys []byte, err error) {
	switch {
	case len(frame) > 1 && frame[0] == plainData:
		return "", frame[1:], nil
	case len(frame) > 1+idLength && frame[0] == addressedData && ident.Valid(string(frame[1:1+idLength])):
		return string(frame[1 : 1+idLength]), frame[1+idLength:], nil
	}
	return "", nil, fault.New(fault.BadRequest,
		"A binary frame of a client is 0x01 and input, or 0x11, the 26 characters of a process's id and input.")
}
