package frames

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
)

// Config are a Writer's settings and dependencies. Every field is required.
type Config struct {
	Session string
	Epoch   int64
	Stream  Stream
	// Buffer bounds the bytes that wait to be published, all channels together.
	Buffer int
	// Batch bounds one message of the stream in bytes. A frame that is larger alone gets a message of its own.
	Batch int
	// Held fails with stale_lease if another process holds the session's lease, and with another error if that cannot be
	// found out now.
	Held func(context.Context) error
	// Progress is called with the published part. It must not block nor call the writer.
	Progress func(Progress)
	// Lost is called once, in a goroutine of the writer, when the writer finds that it was overtaken.
	Lost func(error)
	Log  *slog.Logger
}

// Writer numbers and publishes the frames of one session. Make one with [New]. It is safe for concurrent use;
// frames of one caller stay in their order.
//
// Goroutines: one until the ends of the channels are known; then one per channel while the channel has frames to
// publish, and not one while it is idle. [Writer.Close] ends them.
type Writer struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	opened chan struct{} // closed when it is known where the channels stand

	mu       sync.Mutex // guards the fields below
	isOpen   bool
	early    []Durable // earlier frames
	channels [Channels]channel
	buffered int
	room     chan struct{} // closed and replaced when there may be room or the queue may be empty
	err      error         // why the writer takes no frames any more
}

// channel is one channel of a writer.
type channel struct {
	next  int64  // the number of the next frame
	acked int64  // the last number that the stream holds
	place uint64 // of the last message in the stream
	queue []*batch
	busy  bool // a goroutine publishes
}

// batch is frames that go out as one message.
type batch struct {
	buf   *[]byte
	first int64
	count int
	// id and n are set for a durable frame, which goes alone.
	id string
	n  int64
}

// errClosed is a closed writer's error.
var errClosed = fault.New(fault.Unavailable, "The session is being handed over; try again.").
	With("subsystem", "session-manager")

// buffers are reused between batches; an idle session keeps no buffer.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxReused is the largest buffer worth keeping.
const maxReused = 512 << 10

// Emit numbers a frame and takes it for publication. While the buffer is full it waits; when ctx ends first, the
// frame is taken all the same, so that a cancelled run can say its last words, unless twice the buffer waits
// already: then it is dropped, and no number with it. f.Payload may be used again when Emit returns. It fails only
// when the writer is lost or closed.
func (w *Writer) Emit(ctx context.Context, f Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.buffered >= w.cfg.Buffer && w.err == nil && ctx.Err() == nil {
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		w.mu.Lock()
	}
	switch {
	case w.err != nil:
		return w.err
	case w.buffered < 2*w.cfg.Buffer:
		w.put(Durable{Frame: f})
	}
	return nil
}

// EmitDurable takes frames that the store lists already. It never waits and never fails: frames that a lost or
// closed writer does not publish are published by the next holder.
func (w *Writer) EmitDurable(list []Durable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	for _, d := range list {
		w.put(d)
	}
}

// put numbers a frame, or keeps it until numbers are known. w.mu is held, here and below.
func (w *Writer) put(d Durable) {
	if !w.isOpen {
		d.Payload = bytes.Clone(d.Payload)
		w.early = append(w.early, d)
		w.buffered += len(d.Payload) + overhead
		return
	}
	w.enqueue(d)
}

func (w *Writer) enqueue(d Durable) {
	ch := &w.channels[d.Channel]
	var b *batch
	if d.ID != "" {
		b = ch.push(d.ID, d.N)
	} else {
		b = ch.open(len(d.Payload)+overhead, w.cfg.Batch)
	}
	w.add(ch, b, d.Frame)
	w.start(d.Channel)
}

// overhead is about the size of a frame besides its payload.
const overhead = 80

// open returns the batch that a frame of a size can join.
func (ch *channel) open(size, limit int) *batch {
	if n := len(ch.queue); n > 0 {
		if last := ch.queue[n-1]; last.id == "" && len(*last.buf)+size <= limit {
			return last
		}
	}
	return ch.push("", 0)
}

func (ch *channel) push(id string, n int64) *batch {
	b := &batch{buf: buffers.Get().(*[]byte), first: ch.next, id: id, n: n}
	ch.queue = append(ch.queue, b)
	return b
}

func (w *Writer) add(ch *channel, b *batch, f Frame) {
	before := len(*b.buf)
	if b.count > 0 {
		*b.buf = append(*b.buf, '\n')
	}
	*b.buf = AppendFrame(*b.buf, ch.next, f)
	b.count++
	ch.next++
	w.buffered += len(*b.buf) - before
}

// AppendFrame appends a frame with its number to dst as JSON.
func AppendFrame(dst []byte, seq int64, f Frame) []byte {
	dst = append(append(dst, `{"channel":"`...), f.Channel.String()...)
	dst = strconv.AppendInt(append(dst, `","seq":`...), seq, 10)
	dst = append(append(dst, `,"type":"`...), f.Type...)
	return append(append(append(dst, `","payload":`...), f.Payload...), '}')
}

// start makes sure that a channel's frames are being published.
func (w *Writer) start(c Channel) {
	if ch := &w.channels[c]; !ch.busy {
		ch.busy = true
		w.work.Add(1)
		go w.publish(c)
	}
}

// publish publishes a channel's batches until it is empty.
func (w *Writer) publish(c Channel) {
	defer w.work.Done()
	for {
		b, after := w.take(c)
		if b == nil {
			return
		}
		ack, err := w.send(c, b, after)
		if err != nil {
			w.fail(err)
			return
		}
		w.done(c, b, ack)
	}
}

// take removes the first batch from the queue: frames that come while it is being published go into the next one.
func (w *Writer) take(c Channel) (*batch, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := &w.channels[c]
	if len(ch.queue) == 0 || w.err != nil {
		ch.busy = false
		ch.queue = nil
		w.wake()
		return nil, 0
	}
	b := ch.queue[0]
	ch.queue = ch.queue[1:]
	return b, ch.place
}

func (w *Writer) done(c Channel, b *batch, ack Ack) {
	p := Progress{Session: w.cfg.Session}
	w.mu.Lock()
	ch := &w.channels[c]
	ch.place = ack.Place
	ch.acked = b.first + int64(b.count) - 1
	p.Acked[c] = ch.acked
	w.buffered -= len(*b.buf)
	w.wake()
	w.mu.Unlock()
	if b.n > 0 {
		crash.At(crash.FramesPublished)
		p.Published = []int64{b.n}
	}
	if cap(*b.buf) <= maxReused {
		*b.buf = (*b.buf)[:0]
		buffers.Put(b.buf)
	}
	w.cfg.Progress(p)
}

// wake wakes the waiters for room or for the end of the queue. w.mu is held.
func (w *Writer) wake() {
	close(w.room)
	w.room = make(chan struct{})
}

// Acked returns the last number of each channel that the stream holds.
func (w *Writer) Acked() [Channels]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var acked [Channels]int64
	for c := range w.channels {
		acked[c] = w.channels[c].acked
	}
	return acked
}

// Idle reports whether everything taken was published.
func (w *Writer) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle()
}

func (w *Writer) idle() bool {
	if !w.isOpen {
		return false
	}
	for c := range w.channels {
		if w.channels[c].busy {
			return false
		}
	}
	return true
}

// Flush waits until everything taken was published. It returns ctx's error if that ends first, and the writer's if
// it is lost or closed.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.idle() {
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			w.mu.Lock()
			return ctx.Err()
		}
		w.mu.Lock()
	}
	return w.err
}

// Close stops publishing, at the latest when ctx ends, and waits for the writer's goroutines: frames taken before
// are published if the stream can be reached. Close is idempotent.
func (w *Writer) Close(ctx context.Context) {
	w.Flush(ctx)
	w.fail(errClosed)
	w.cancel()
	w.work.Wait()
}

// fail makes the writer refuse everything from now on.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	first := w.err == nil
	if first {
		w.err = err
		w.wake()
	}
	w.mu.Unlock()
	if first && !errors.Is(err, errClosed) {
		w.cancel()
		w.cfg.Lost(err)
	}
}
