// Package frametype lists the channels of a session's frames, the frame types, and those of the system socket. The
// tables are generated from the option (kaged.api.v1.frame) of the messages of kaged.api.v1. A new frame type needs a
// message there and a producer.
package frametype

//go:generate go run ./internal/gen

// Channel is one of a session's numbered and replayed channels.
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

// Type is a frame type.
type Type struct {
	// Channel is the channel of its frames, if they are a session's; Name is the type in a frame.
	Channel Channel
	Name    string
	// Message is the name of the payload's message in kaged.api.v1.
	Message string
	// OfSocket means that the gateway's socket creates the frame; it is neither numbered nor replayed.
	OfSocket bool
}

// All returns all types, in the order of the contract.
func All() []Type { return append([]Type(nil), all[:]...) }

// System returns the frame types of the system socket. All but control frames are on the channel "system".
func System() []Type { return append([]Type(nil), system[:]...) }
