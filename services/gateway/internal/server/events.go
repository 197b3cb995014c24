package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"kaged.dev/pkg/frametype"
	"kaged.dev/services/gateway/internal/core/channel"
)

// place is a reader's position in a channel.
type place struct {
	name string
	// seen is the number of the last frame that a resuming reader has received.
	seen    int64
	resumes bool
	splice  channel.Splice
	// unknown is true if the channel had no stored frame when the reader connected. The first live batch then sets the
	// position.
	unknown bool
	// since is the time at which a published frame was first found missing in the store, or zero.
	since time.Time
}

// start sets the position and returns the splice's verdict. next is the number of the channel's next frame, 0 if no
// frame is stored.
func (p *place) start(next int64) channel.Verdict {
	switch {
	case p.resumes && next == 0:
		p.splice.Published(p.seen) // If the first frame then has another number, the splice finds the gap.
		return p.splice.Resume(p.seen)
	case p.resumes:
		p.splice.Published(next - 1)
		return p.splice.Resume(p.seen)
	case next == 0:
		p.unknown = true
	default:
		p.splice.Published(next - 1)
		p.splice.Follow()
	}
	return channel.Nothing
}

// live takes a live batch and returns the part to send.
func (p *place) live(b channel.Batch) (channel.Batch, channel.Verdict) {
	if p.unknown {
		p.unknown = false
		p.splice.Published(b.First - 1)
		p.splice.Follow()
	}
	return p.splice.Live(b)
}

// suspect is called when live batches may have been missed.
func (p *place) suspect() {
	if p.unknown {
		p.unknown = false
		p.splice.Begin()
	}
	p.splice.Suspect()
}

// last returns the number of the last frame sent to the reader.
func (p *place) last() int64 {
	if !p.splice.On() {
		return 0
	}
	return max(p.splice.Next()-1, 0)
}

// events is a stream of server-sent events to one client. It is used by one goroutine.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	session string
	at      []*place
	watch   Watch
	stored  func(ctx context.Context, session, name string, from int64) iter.Seq2[channel.Batch, error]
	missing time.Duration
	// doubt is the end of the time in which the store is read for dropped live frames, which may be stored after they
	// were dropped.
	doubt time.Time
	ended bool // a frame reported the end of the session
	out   bytes.Buffer
}

// eventsBuffer is the size in bytes at which collected events are written.
const eventsBuffer = 32 << 10

// drain sends the live frames, and stored frames if the reader is behind. It reports whether it sent any. It fails
// with channel.ErrGap if a frame that the reader needs has expired, and with unavailable if the store is
// unavailable.
func (e *events) drain(ctx context.Context) (sent bool, err error) {
	batches, missed, lost := e.watch.Take()
	if lost {
		return false, channel.ErrGap
	}
	if missed {
		e.doubt = time.Now().Add(e.missing)
	}
	for _, p := range e.at {
		if e.doubtful() {
			p.suspect()
		}
		if err = e.advance(ctx, p, batches[p.name]); err != nil {
			break
		}
	}
	if err != nil {
		e.doubt = time.Now().Add(e.missing) // the remaining batches are dropped; read them from the store
	}
	sent = e.out.Len() > 0
	return sent, errors.Join(err, e.flush())
}

// advance sends the frames of one channel.
func (e *events) advance(ctx context.Context, p *place, batches []channel.Batch) error {
	if p.splice.Filling() { // older than the live frames
		if err := e.fill(ctx, p); err != nil {
			return err
		}
	}
	for _, b := range batches {
		out, verdict := p.live(b)
		if err := e.obey(p, out, verdict); err != nil {
			return err
		}
	}
	if p.splice.Filling() {
		return e.fill(ctx, p)
	}
	return nil
}

// doubtful reports whether dropped live frames may still be missing in the store.
func (e *events) doubtful() bool { return time.Now().Before(e.doubt) }

// filling reports whether the store must be read again, because published frames are missing in it or may be.
func (e *events) filling() bool {
	if e.doubtful() {
		return true
	}
	for _, p := range e.at {
		if p.splice.Filling() {
			return true
		}
	}
	return false
}

// fill sends the stored frames from the reader's position on. If a published frame stays missing for the time
// missing, it gives the frame up.
func (e *events) fill(ctx context.Context, p *place) error {
	from := p.splice.Next()
	for b, err := range e.stored(ctx, e.session, p.name, from) {
		if errors.Is(err, channel.ErrGap) {
			return e.obey(p, channel.Batch{}, p.splice.GiveUp())
		}
		if err != nil {
			return err
		}
		out, verdict := p.splice.Stored(b)
		if err := e.obey(p, out, verdict); err != nil {
			return err
		}
		if !p.splice.Filling() {
			break
		}
	}
	switch {
	case p.splice.Filled() == channel.Nothing:
		p.since = time.Time{}
	case p.since.IsZero() || p.splice.Next() > from:
		p.since = time.Now()
	case time.Since(p.since) >= e.missing:
		p.since = time.Time{}
		return e.obey(p, channel.Batch{}, p.splice.GiveUp())
	}
	return nil
}

// obey carries out a verdict. It fails with channel.ErrGap if the verdict is Lost.
func (e *events) obey(p *place, b channel.Batch, verdict channel.Verdict) error {
	switch verdict {
	case channel.Deliver:
		e.batch(p, b)
		if e.out.Len() >= eventsBuffer {
			return e.flush()
		}
	case channel.Lost:
		return channel.ErrGap
	}
	return nil
}

// batch appends the frames of a batch as events. The splice is already past the batch. The id of an event has the
// reader's positions in all channels.
func (e *events) batch(p *place, b channel.Batch) {
	seq := b.First
	b.Frames(func(frame []byte) bool {
		kind := typeOf(frame)
		if kind == frametype.SessionStateChanged.Name {
			var f struct{ Payload struct{ State string } }
			_ = json.Unmarshal(frame, &f) // kaged wrote it, so it parses
			e.ended = e.ended || f.Payload.State == "ended"
		}
		e.out.WriteString("id: ")
		for i, other := range e.at {
			if i > 0 {
				e.out.WriteByte(',')
			}
			n := other.last()
			if other == p {
				n = seq
			}
			e.out.WriteString(other.name)
			e.out.WriteByte(':')
			e.out.Write(strconv.AppendInt(e.out.AvailableBuffer(), n, 10))
		}
		e.out.WriteString("\nevent: ")
		e.out.WriteString(kind)
		e.out.WriteString("\ndata: ")
		e.out.Write(frame)
		e.out.WriteString("\n\n")
		seq++
		return true
	})
}

// typeOf returns the type of a frame. In a frame the type precedes the payload.
func typeOf(frame []byte) string {
	_, rest, _ := bytes.Cut(frame, []byte(`"type":"`))
	kind, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(kind)
}

// flush writes the collected events.
func (e *events) flush() error {
	if e.out.Len() == 0 {
		return nil
	}
	err := e.write(e.out.Bytes())
	if e.out.Reset(); e.out.Cap() > 2*eventsBuffer {
		e.out = bytes.Buffer{}
	}
	return err
}

func (e *events) comment(text string) error { return e.write([]byte(": " + text + "\n\n")) }

// lost sends the closing event of a reader that needs expired frames.
func (e *events) lost() {
	e.closing("resume_failed", "The next frames have expired; read the session again.")
}

// closing sends the reason for the end of the stream. Its event has no id, so that a client that reconnects resumes
// after the last frame.
func (e *events) closing(code, reason string) {
	data, err := json.Marshal(map[string]string{"code": code, "reason": reason})
	if err == nil {
		_ = e.write(fmt.Appendf(nil, "event: closing\ndata: %s\n\n", data))
	}
}

func (e *events) write(data []byte) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := e.w.Write(data); err != nil {
		return err
	}
	return e.control.Flush()
}
