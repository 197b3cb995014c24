package channel

import (
	"bytes"
	"errors"
)

// Batch is consecutive frames of one channel as one message carried them.
type Batch struct {
	// First is the number of the first frame; of a batch without frames, the number the next frame will have.
	First int64
	// Count is how many frames Data holds. A batch without frames marks the begin of an epoch.
	Count int
	// Epoch counts the holders of the session.
	Epoch int64
	// Data is the frames, separated by newlines. It is not changed.
	Data []byte
}

// Next is the number of the frame after the batch.
func (b Batch) Next() int64 { return b.First + int64(b.Count) }

// From returns the batch without its frames before seq. seq must not be past [Batch.Next].
func (b Batch) From(seq int64) Batch {
	for b.First < seq && b.Count > 0 {
		_, rest, _ := bytes.Cut(b.Data, newline)
		b.Data, b.First, b.Count = rest, b.First+1, b.Count-1
	}
	return b
}

// Frames calls each for every frame until it returns false.
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

// ErrGap says that a frame that is needed is stored no more.
var ErrGap = errors.New("a frame is stored no more")
