// Package frames is the one sequencer of a session's frames.
//
// A frame goes out on a channel and carries the channel's next number. The process that holds a session's lease has
// one [Writer] for it: the writer numbers frames, joins those that wait into batches of their channel, and appends
// each batch to the [Stream] in order, behind the message it knows to be the last. Another process that took the
// lease over has put a marker there, so a writer that was overtaken is refused by the stream itself and reports
// that it is lost.
//
// While the stream is away no frame is dropped or reordered: the writer tries again until it is told to stop, its
// buffer fills up, and [Writer.Emit] blocks, so the producer of frames is read no further. A message that is too
// large for the stream holds up no other: it is divided, and a frame that is too large alone is shortened. Frames
// that tell of a change of state are [Durable]: they are listed in the store in the transaction of the change and
// struck out once they are published, so that the next holder publishes them after a crash.
package frames

import (
	"context"
	"time"

	"kaged.dev/pkg/frametype"
)

// Channel is one of a session's channels that are numbered and replayed.
type Channel = frametype.Channel

// The channels.
const (
	// Output is the output of the model and its tools.
	Output = frametype.Output
	// Events are the events of the session.
	Events = frametype.Events
	// Channels is how many there are.
	Channels = frametype.Channels
)

// ParseChannel returns the channel of a name.
func ParseChannel(name string) (Channel, bool) { return frametype.ParseChannel(name) }

// Frame is a frame without its number. Payload is its payload as JSON.
type Frame struct {
	Channel Channel
	Type    string
	Payload []byte
}

// Durable is a frame that is listed in the store until it is published.
type Durable struct {
	Frame
	// N orders the durable frames of a session and names them in the store.
	N int64
	// ID is the frame's name in the stream, the same from every publisher.
	ID string
}

// Tail is the last message of a channel in the stream.
type Tail struct {
	// Place is where it is, 0 if the stream holds no message of the channel.
	Place uint64
	// Last is the number of the last frame published up to and with it.
	Last int64
	// Epoch is the epoch of the holder that published it.
	Epoch int64
}

// Message is a batch of frames of one channel, or a marker, which has no frames and says where the next one goes
// on.
type Message struct {
	Session string
	Channel Channel
	Epoch   int64
	// First is the number of the first frame, Count how many there are.
	First int64
	Count int
	// ID names a message that must be in the stream only once; "" for others.
	ID string
	// Data holds the frames, separated by newlines.
	Data []byte
	// After is the place of the message that must be the channel's last, 0 for an empty channel.
	After uint64
}

// Ack is the stream's answer to a message.
type Ack struct {
	// Place is where the message is.
	Place uint64
	// Duplicate says that a message of this ID existed before and the append had no effect.
	Duplicate bool
}

// Stream keeps frames in order and hands them to gateways.
type Stream interface {
	// Created returns when the stream was made: it lacks earlier messages.
	Created(ctx context.Context) (time.Time, error)
	// Tail returns a channel's last message.
	Tail(ctx context.Context, session string, c Channel) (Tail, error)
	// Append appends m. It returns ErrConflict if the channel's last message is not m.After, and
	// fault.PayloadTooLarge if m is larger than the stream takes; any other error leaves open whether m was
	// appended.
	Append(ctx context.Context, m Message) (Ack, error)
}

// conflict is the type of ErrConflict.
type conflict struct{}

func (conflict) Error() string { return "another message is the channel's last" }

// ErrConflict says that a channel's last message is another one than the writer knows.
var ErrConflict error = conflict{}
