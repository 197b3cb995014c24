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
	// Attach holds a session until ctx ends, and ends another socket's hold if takeover is set. It fails with the
	// faults of AttachService.Attach.
	Attach func(ctx context.Context, session string, takeover bool) (channel.Hold, error)
	// Stored yields the stored batches of a channel that hold frame from or a later one, in order and without a
	// hole. It may end with an error: channel.ErrGap if later frames than from are stored and from is not,
	// fault.Unavailable if the store is away.
	Stored func(ctx context.Context, session, name string, from int64) iter.Seq2[channel.Batch, error]
	// Terminals opens terminals of background processes.
	Terminals terminal.Open
	// Ready fails while the bus is away.
	Ready func() error
	// Warnings are sent to an operator on events, since Since.
	Warnings []string
	Since    time.Time
	Limits   Limits
}

// Limits bound a socket.
type Limits struct {
	// Sockets is how many there may be at once.
	Sockets int
	// Frame is the largest frame of a client in bytes.
	Frame int64
	// Frames is how many frames a client may send each second on average, pings included, and FrameBurst how many
	// at once; 0 is no limit, here, for Bytes and for Replay.
	Frames, FrameBurst int
	// Bytes is how many bytes of a client are read each second on average, framing included, and ByteBurst how many at
	// once; the rest waits on its side. It bounds uncounted frames, such as the empty parts of a message.
	Bytes, ByteBurst int
	// Replay is how many bytes of stored frames a client is sent each second on average, and ReplayBurst how many at
	// once.
	Replay, ReplayBurst int
	// Output, Events and Control are how many bytes may wait for a slow client: of the channel output, of each other
	// one, and of control.
	Output, Events, Control int
	// Terminals is how many terminals a socket may show at once, and Pty how many bytes of one may wait. A terminal's
	// reader waits for a slow client, which is told of the gap.
	Terminals, Pty int
	// Typed is how many bytes of input may wait for a process that does not read.
	Typed int
	// Age is how long a socket lasts, 0 for any time.
	Age time.Duration
	// Idle is how long a client may be silent; a third of it is how often it is pinged.
	Idle time.Duration
	// Probe is a client's time to answer when another socket wants its session.
	Probe time.Duration
	// Flush is a client's time between the closing frame and the close.
	Flush time.Duration
	// Closing is how long the closing frame may take to be written.
	Closing time.Duration
	// Attach is how long an upgrade waits for the holder.
	Attach time.Duration
	// Grace is how long a socket is kept while the holder or the bus is away.
	Grace time.Duration
	// Missing is how long published frames may take to be stored.
	Missing time.Duration
}
