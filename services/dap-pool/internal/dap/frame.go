package dap

import "errors"

// queueBytes is the maximum size of the frames that an adapter has not read yet.
const queueBytes = 16 << 20

var (
	errFrame = errors.New("the debug adapter broke the framing")
	errQueue = errors.New("the debug adapter does not read its input")
	errOver  = errors.New("the connection to the debug adapter is closed")
)
