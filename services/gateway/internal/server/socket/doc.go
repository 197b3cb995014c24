// Package socket serves the sockets of sessions: the WebSocket protocol kaged.v1 of spec/http-api.md.
//
// A [Hub] has all sockets of a gateway. It receives the live batches of the sessions with a socket or a [Watch], and
// passes them to the sockets and watches of their session. A socket holds its session at the lease holder before it is
// upgraded, so that a refusal is an HTTP answer. It releases the session when it closes. A socket with terminals=1
// shows terminals only and holds no session.
//
// # Frames
//
// Frames of a session arrive rendered and are relayed byte for byte. A client's position in each channel is a
// channel.Splice; its waiting frames are a channel.Queue with a limit per channel. Stored frames are read only as
// fast as the client takes them, so a replay of any length never overflows the queue. A client that is too slow for
// live frames is closed with backpressure.
//
// # Numbers
//
// Frames on output and events carry the session's numbers. Frames on control carry the socket's own numbers, from
// 1, and so do the events of each terminal. audit.warning is sent on events, but is not part of the session's
// sequence: its seq is 0, and clients ignore it when they check for gaps.
//
// # Closing
//
// The server sends a closing frame with the reason after the waiting frames (without them, for backpressure). It
// gives the client the flush window to close the connection, and then closes it with the fitting code: 1000 for
// session_ended, 1001 for server_shutdown, and 1008 for idle_timeout, backpressure, policy_violation, rate_limited,
// replaced, resume_failed and signed_out.
//
// A client may be silent for any time if it answers pings. While another socket asks for its session it must answer
// a ping within the probe timeout, so that a client that has vanished does not block its own reconnect.
//
// # Goroutines
//
// A socket has three: one reads from the client, one writes to it, one waits for the end of the hold and attaches
// again if the hold was lost. It has one more for each channel that is filled from stored frames, and two for each
// terminal. All end with the socket. [Hub.Run] pings clients in its caller's goroutine and waits for all sockets.
package socket
