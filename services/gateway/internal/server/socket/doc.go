// Package socket serves the sockets of sessions: the WebSocket protocol kaged.v1 of spec/http-api.md.
//
// A [Hub] has all sockets of a gateway. Live batches of all sessions come to it from one subscription, and it
// passes them to the sockets of their session. A socket holds its session at the holder of the lease before it is
// upgraded, so a refusal is an HTTP answer; it gives the hold back when it closes.
//
// # Frames
//
// Frames of a session arrive rendered and are relayed byte for byte. A client's place in each channel is a
// channel.Splice; its waiting frames are a channel.Queue with a limit per channel. Stored frames are read only as
// fast as the client takes them, so a replay of any length never overflows; a client that is too slow for live
// frames is closed with backpressure.
//
// # Numbers
//
// Frames on output and events carry the session's numbers. Frames on control carry the socket's own, from 1.
// audit.warning is on events, but is the socket's own and no part of the session's sequence: its seq is 0, and a
// client that checks for gaps passes over it.
//
// # Closing
//
// The server gives the reason in a closing frame after the waiting frames (without them, for backpressure), leaves
// the client a second to close by itself, and then closes with the code that fits: 1000 for session_ended, 1001 for
// server_shutdown, 1008 for idle_timeout, backpressure, policy_violation, replaced, resume_failed and
// signed_out.
//
// A client is silent for as long as it likes as long as it answers pings. While another socket asks for its session
// it must answer at once, so that one that has vanished does not keep its own successor out.
//
// # Goroutines
//
// A socket has three: one reads the client, one writes to it, one waits for the end of the hold and holds the
// session again where it was lost by accident. While a channel is filled from stored frames, it has one more for
// that channel. All end with the socket; [Hub.Run] has one of its own, for pings, and waits for all.
package socket
