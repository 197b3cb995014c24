package tools

import (
	"math/bits"
	"sync"
)

// buffers keeps memory for the contents of files from one call to the next. Fresh memory for long files is cleared
// first, and lets the garbage collector run in nearly every call. The collector takes what is not used.
var buffers [bits.UintSize]sync.Pool // by the logarithm of the capacity

// leastBuffer is the logarithm of the least capacity that is worth keeping.
const leastBuffer = 12

// buffer returns an empty slice of at least this capacity.
func buffer(capacity int) []byte {
	class := max(leastBuffer, bits.Len(uint(max(capacity, 1)-1)))
	if kept, ok := buffers[class].Get().(*[]byte); ok {
		return *kept
	}
	return make([]byte, 0, 1<<class)
}

// reuse gives a slice of [buffer] back. Nothing may refer to it any more.
func reuse(b []byte) {
	b = b[:0]
	buffers[bits.Len(uint(cap(b)))-1].Put(&b)
}
