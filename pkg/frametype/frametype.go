// Package frametype lists the channels of a session's frames and the types of frames: a table that is generated from
// the option (kaged.api.v1.frame) of the messages of kaged.api.v1. A new type of frame is a message there, and its
// producer.
package frametype

//go:generate go run ./internal/gen

// Channel is one of a session's channels that are numbered and replayed.
type Channel uint8

// String returns the channel's name.
func (c Channel) String() string { return channelNames[c] }

// ParseChannel returns the channel of a name.
func ParseChannel(name string) (Channel, bool) {
	for c, n := range channelNames {
		if n == name {
			return Channel(c), true
		}
	}
	return 0, false
}

// Type is a type of frames.
type Type struct {
	// Channel is where its frames go, Name is the type as frames show it.
	Channel Channel
	Name    string
	// Message is the name of the payload's message in kaged.api.v1.
	Message string
	// OfSocket says that the gateway's socket makes the frame itself; it is neither numbered nor replayed.
	OfSocket bool
}

// All returns every type, in the order of the contract.
func All() []Type { return append([]Type(nil), all[:]...) }
