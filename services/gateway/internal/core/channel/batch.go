package channel

import (
	"bytes"
	"errors"
)

// Batch is a series of consecutive frames of one channel, as one message of the bus carries them.
type Batch struct {
	// First is the number of the first frame. In a batch without frames it is the number of the next frame.
	First int64
	// Count is the number of frames in Data. A batch without frames marks the beginning of an epoch.
	Count int
	// Epoch is the epoch of the lease under which the frames were published.
	Epoch int64
	// Data has the frames, separated by newlines. It is never modified.
	Data []byte
}

// Next returns the number of the frame after the batch.
func (b Batch) Next() int64 { return b.First + int64(b.Count) }

// From returns the batch without the frames before seq, which must be at most [Batch.Next].
func (b Batch) From(seq int64) Batch {
	for b.First < seq && b.Count > 0 {
		_, rest, _ := bytes.Cut(b.Data, newline)
		b.Data, b.First, b.Count = rest, b.First+1, b.Count-1
	}
	return b
}

// Frames calls each for every frame, until each returns false.
func (b Batch) Frames(each func(frame []byte) bool) {
	for data := b.Data; len(data) > 0; {
		frame, rest, _ := bytes.Cut(data, newline)
		if !each(frame) {
			return
		}
		data = rest
	}
}

var newline = []byte{'\n'}

// ErrGap means that a needed frame has expired.
var ErrGap = errors.New("a needed frame has expired")
