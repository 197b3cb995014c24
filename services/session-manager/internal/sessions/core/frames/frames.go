// Package frames numbers and publishes the frames of a session.
//
// A frame belongs to a channel and carries the channel's next number. The process that holds a session's lease has
// one [Writer] for it. The writer numbers frames, joins waiting frames of a channel into batches, and appends each
// batch to the [Stream] in order, on condition that the channel's last message is the one that the writer knows. A
// process that takes the lease over appends a marker to each channel, so the stream itself refuses the earlier
// writer, which then reports that it is lost.
//
// An unreachable stream neither drops nor reorders frames: the writer retries until it is closed, its buffer fills
// up, and [Writer.Emit] blocks, so the producer of frames blocks too. A message that is too large for the stream
// delays no other: it is divided, and a single frame that is too large is shortened. Frames about a change of state
// are [Durable]: the transaction of the change stores them in the outbox, and they are deleted there once they are
// published, so that after a crash the next holder publishes them.
package frames

import (
	"context"
	"time"

	"kaged.dev/pkg/frametype"
)

// Channel is a numbered and replayed channel of a session.
type Channel = frametype.Channel

// The channels.
const (
	// Output is the output of the model and its tools.
	Output = frametype.Output
	// Events are the changes of state of the session.
	Events = frametype.Events
	// Channels is the number of channels.
	Channels = frametype.Channels
)

// ParseChannel returns the channel with a name.
func ParseChannel(name string) (Channel, bool) { return frametype.ParseChannel(name) }

// Frame is a frame without its number. Payload is JSON.
type Frame struct {
	Channel Channel
	Type    string
	Payload []byte
}

// Durable is a frame that the store's outbox holds until it is published.
type Durable struct {
	Frame
	// N orders the durable frames of a session and identifies them in the outbox.
	N int64
	// ID identifies the frame in the stream; it is the same from every publisher.
	ID string
}

// Tail is the last message of a channel in the stream.
type Tail struct {
	// Place is its sequence number in the stream, 0 if the stream holds no message of the channel.
	Place uint64
	// Last is the number of the channel's last published frame.
	Last int64
	// Epoch is the epoch of the holder that published it.
	Epoch int64
}

// Message is a batch of frames of one channel, or a marker. A marker has no frames; its First is the next frame's
// number.
type Message struct {
	Session string
	Channel Channel
	Epoch   int64
	// First is the number of the first frame, Count the number of frames.
	First int64
	Count int
	// ID makes the stream drop a second message with the same ID; "" allows duplicates.
	ID string
	// Data holds the frames, separated by newlines.
	Data []byte
	// After is the place that the channel's last message must have, 0 for an empty channel.
	After uint64
}

// Ack is the stream's answer to a message.
type Ack struct {
	// Place is the message's place in the stream.
	Place uint64
	// Duplicate says that the stream already held a message with this ID and stored nothing.
	Duplicate bool
}

// Stream stores frames in order and delivers them to gateways.
type Stream interface {
	// Created returns the stream's creation time. A recreated stream lacks the messages from before that time.
	Created(ctx context.Context) (time.Time, error)
	// Tail returns a channel's last message.
	Tail(ctx context.Context, session string, c Channel) (Tail, error)
	// Append appends m. It returns ErrConflict if the place of the channel's last message is not m.After, and
	// fault.PayloadTooLarge if m is larger than the stream accepts; after any other error m may or may not be stored.
	Append(ctx context.Context, m Message) (Ack, error)
}

// conflict is the type of ErrConflict.
type conflict struct{}

func (conflict) Error() string { return "another message is the channel's last" }

// ErrConflict says that the channel's last message is not the one that the writer expects.
var ErrConflict error = conflict{}
