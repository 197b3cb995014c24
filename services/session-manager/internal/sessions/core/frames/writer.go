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
	// Buffer bounds the bytes of unpublished frames of all channels together.
	Buffer int
	// Batch bounds one message of the stream in bytes. A frame above it gets a message of its own.
	Batch int
	// Held fails with stale_lease if another process holds the session's lease, and with another error if the store
	// cannot answer.
	Held func(context.Context) error
	// Progress takes each published message. It must not block or call the writer.
	Progress func(Progress)
	// Lost is called once, in a goroutine of the writer, when another holder has taken over.
	Lost func(error)
	Log  *slog.Logger
}

// Writer numbers and publishes the frames of one session. Make one with [New]. It is safe for concurrent use;
// frames of one caller stay in order.
//
// Goroutines: one until the ends of the channels are known; then one per channel with frames to publish, none while
// it is idle. [Writer.Close] ends them.
type Writer struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	opened chan struct{} // closed when the ends of the channels are known

	mu       sync.Mutex // guards the fields below
	isOpen   bool
	early    []Durable // frames emitted before the channels' numbers are known
	channels [Channels]channel
	buffered int
	room     chan struct{} // closed and replaced when the buffer may have room or the queue may be empty
	err      error         // why the writer accepts no more frames
}

// channel is one channel of a writer.
type channel struct {
	next  int64  // number of the next frame
	acked int64  // last number that the stream holds
	sent  int64  // last number of a message under way, or of an earlier one
	place uint64 // place of the last message in the stream
	queue []*batch
	busy  bool // a goroutine is publishing
}

// batch is the frames of one message.
type batch struct {
	buf   *[]byte
	first int64
	count int
	// id and n are set for a durable frame, which has its message alone.
	id string
	n  int64
}

// errClosed is the error of a closed writer.
var errClosed = fault.New(fault.Unavailable, "The session is being handed over; try again.").
	With("subsystem", "session-manager")

// buffers are reused between batches; an idle session holds no buffer.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxReused is the largest buffer that goes back to the pool.
const maxReused = 512 << 10

// Emit numbers a frame and queues it for publication. It waits while the buffer is full. If ctx ends first the
// frame is queued all the same, so that a cancelled run can report its end, unless twice the buffer is queued: then
// the frame is dropped without taking a number. The caller may reuse f.Payload after Emit returns. Emit fails only
// if the writer is lost or closed.
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

// EmitDurable queues frames that are in the outbox. It never waits and never fails: the next holder publishes
// frames that a lost or closed writer does not.
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

// put numbers a frame, or keeps it until the numbers are known. w.mu is held, here and below.
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

// overhead is the approximate size of a frame besides its payload.
const overhead = 80

// open returns a batch with room for a frame of a size.
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

// start ensures that a goroutine publishes the channel's frames.
func (w *Writer) start(c Channel) {
	if ch := &w.channels[c]; !ch.busy {
		ch.busy = true
		w.work.Add(1)
		go w.publish(c)
	}
}

// publish publishes a channel's batches until the queue is empty or the writer has failed.
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

// take removes the first batch from the queue, so that frames emitted meanwhile go into the next one.
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
	ch.sent = b.first + int64(b.count) - 1
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

// wake wakes the waiters for room and those for an empty queue. w.mu is held.
func (w *Writer) wake() {
	close(w.room)
	w.room = make(chan struct{})
}

// Acked returns the last number that the stream holds, by channel.
func (w *Writer) Acked() [Channels]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var acked [Channels]int64
	for c := range w.channels {
		acked[c] = w.channels[c].acked
	}
	return acked
}

// Reached returns Acked once the messages under way are acknowledged, at the latest when ctx ends. A reader may have
// the frames of a message before its acknowledgement is here.
func (w *Writer) Reached(ctx context.Context) [Channels]int64 {
	w.mu.Lock()
	var sent [Channels]int64
	for c := range w.channels {
		sent[c] = w.channels[c].sent
	}
	for c := range w.channels {
		for w.channels[c].acked < sent[c] && w.err == nil && ctx.Err() == nil {
			room := w.room
			w.mu.Unlock()
			select {
			case <-room:
			case <-ctx.Done():
			}
			w.mu.Lock()
		}
	}
	w.mu.Unlock()
	return w.Acked()
}

// Idle reports whether all queued frames are published.
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

// Flush waits until all queued frames are published. It returns ctx's error if that ends first, and the writer's if
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

// Close waits until the queued frames are published, at the latest until ctx ends, then ends the writer and waits
// for its goroutines. Close is idempotent.
func (w *Writer) Close(ctx context.Context) {
	w.Flush(ctx)
	w.fail(errClosed)
	w.cancel()
	w.work.Wait()
}

// fail makes the writer refuse all further frames.
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
