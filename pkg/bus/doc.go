// Package bus carries the frames of sessions from their one sequencer to every gateway, through NATS JetStream.
//
// # The stream
//
// The stream WS holds the frames of the last minutes, on a subject ws.<session>.<channel> for each channel. A message
// is a [Batch]: consecutive frames, rendered once, joined by newlines, with the sequence number of the first in a
// header. A batch without frames is an epoch marker: it names the writer from here on and the number of the next frame.
//
// # Writing
//
// A session has one writer at a time, named by an epoch that grows. [Frames.Publish] with ExpectLast is refused with
// fault.StaleLease unless the writer has seen the subject's last message, so a writer that was replaced cannot add a
// frame once its successor's marker is stored. A publish with a lost answer is ambiguous. Publishing the same batch
// again is safe and settles it: the server checks ExpectLast before it looks for duplicates, so Publish compares the
// subject's last message with the batch and recognises its own.
//
// # Reading
//
// [Frames.Live] delivers the stored messages of the sessions that the reader follows, in the order of the stream,
// because the server republishes each message (on live.<subject>) once it is stored. A refused or repeated publish is
// not delivered. A reader subscribes to each followed session by itself, so that a message costs nothing at processes
// without a reader of it. [Frames.Replay] reads the retained ones. Both give a batch's place in the stream, and
// frames have numbers, so a reader splices them exactly: subscribe first, replay, then drop duplicates.
//
// # Outages
//
// The connection is retried for ever. During an outage all calls fail at once with fault.Unavailable (details.subsystem
// "bus"), no message is buffered, and a publish on its way is given up as ambiguous. After an outage and after dropped
// messages a live subscription reports the loss, and its reader fills the hole by replay. A lost stream is made again
// by its owner's next publish, with another [Frames.Incarnation]. Readers neither make nor change it.
//
// # Goroutines
//
// A [Conn] has those of nats.go: reader, writer, pinger, one for callbacks. Each [Subscription] has one more, which
// runs the handler. [Conn.Close] ends them all. No other goroutine is started, and no consumer is left on the server.
package bus
