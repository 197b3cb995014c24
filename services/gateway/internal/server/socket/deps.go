package socket

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"kaged.dev/services/gateway/internal/core/channel"
	"kaged.dev/services/gateway/internal/core/terminal"
)

// Deps are the dependencies of a [Hub].
type Deps struct {
	Log *slog.Logger
	// Attach holds a session until ctx ends. With takeover it ends the hold of another socket. It fails with the
	// faults of AttachService.Attach.
	Attach func(ctx context.Context, session string, takeover bool) (channel.Hold, error)
	// Follow starts the delivery of a session's live batches to the hub, until stop is called. When it returns, every
	// batch that is stored from then on is delivered. It fails with not_found for a malformed id, and with unavailable.
	Follow func(ctx context.Context, session string) (stop func(), err error)
	// Stored yields the stored batches of a channel that contain frame from or a later one, in order and without gaps.
	// It may end with channel.ErrGap if frame from has expired and later frames are stored, or with fault.Unavailable.
	Stored func(ctx context.Context, session, name string, from int64) iter.Seq2[channel.Batch, error]
	// Terminals opens terminals of background processes.
	Terminals terminal.Open
	// Ready fails while the bus is unavailable.
	Ready func() error
	// Warnings are the daemon's warnings, in force since Since. A client receives them on events.
	Warnings []string
	Since    time.Time
	Limits   Limits
}

// Limits bounds a socket.
type Limits struct {
	// Sockets is the maximum number of open sockets.
	Sockets int
	// Frame is the maximum size of a client's frame in bytes.
	Frame int64
	// Frames is the average number of frames per second that a client may send, pings included. FrameBurst is the
	// number of frames that it may send at once. A Frames of 0 means no limit, and so do a Bytes and a Replay of 0.
	Frames, FrameBurst int
	// Bytes is the average number of bytes per second that are read from a client, framing included. ByteBurst is the
	// number of bytes that are read at once. Further bytes wait on the client's side. This also bounds data that does
	// not count as a frame, such as the empty parts of a message.
	Bytes, ByteBurst int
	// Replay is the average number of bytes of stored frames per second that a client is sent. ReplayBurst is the
	// number of bytes sent at once.
	Replay, ReplayBurst int
	// Output, Events and Control are the sizes in bytes of the queues to a slow client: of the channel output, of each
	// other channel of a session, and of control.
	Output, Events, Control int
	// Terminals is the maximum number of terminals that a socket shows at once. Pty is the size in bytes of a
	// terminal's queue to a slow client. Reading the terminal waits while the queue is full; the client is told the
	// size of a gap.
	Terminals, Pty int
	// Typed is the maximum number of bytes of input that wait for a process.
	Typed int
	// Age is the maximum age of a socket, 0 for no limit.
	Age time.Duration
	// Idle is the maximum silence of a client. A client is pinged three times as often.
	Idle time.Duration
	// Probe is the time for a client to answer when another socket asks for its session.
	Probe time.Duration
	// Flush is the time between the closing frame and the close of the connection.
	Flush time.Duration
	// Closing is the time to write the closing frame.
	Closing time.Duration
	// Attach is the time that an upgrade waits for the holder.
	Attach time.Duration
	// Grace is the time that a socket stays open while the holder or the bus is unavailable.
	Grace time.Duration
	// Missing is the time for a published frame to be stored.
	Missing time.Duration
}
