package terminal

import (
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Prefix begins the name of a terminal's channel; the id of its process follows.
const Prefix = "pty:"

// The first byte of a binary frame. After an addressed one comes the id of the process.
const (
	plainData      = 0x01
	plainEvent     = 0x02
	addressedData  = 0x11
	addressedEvent = 0x12
)

// idLength is the length of a process's id.
const idLength = 26

// Data returns a frame of output. An empty id makes it a plain one.
func Data(id string, output []byte) []byte { return frame(plainData, addressedData, id, output) }

// Event returns a frame of a control event, which is a JSON frame.
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

// Input returns the process and the keys of a client's frame; the process of a plain one is "". It fails with
// bad_request for a frame that is no input.
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
