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

// place is where a reader stands in a channel.
type place struct {
	name string
	// seen is the number of the last frame of a reader that resumes.
	seen    int64
	resumes bool
	splice  channel.Splice
	// unknown says that no frame of the channel was kept when the reader came; the first one tells its number.
	unknown bool
	// since is when published frames began to be missing in the store, or zero.
	since time.Time
}

// start begins the channel. next is the number of the next frame to come, 0 where no frame is kept.
func (p *place) start(next int64) channel.Verdict {
	switch {
	case p.resumes && next == 0:
		p.splice.Published(p.seen) // A first frame with another number shows the gap.
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

// live takes a batch as it was published.
func (p *place) live(b channel.Batch) (channel.Batch, channel.Verdict) {
	if p.unknown {
		p.unknown = false
		p.splice.Published(b.First - 1)
		p.splice.Follow()
	}
	return p.splice.Live(b)
}

// suspect tells that live batches may have been missed.
func (p *place) suspect() {
	if p.unknown {
		p.unknown = false
		p.splice.Begin()
	}
	p.splice.Suspect()
}

// last is the number of the last frame that the reader was sent.
func (p *place) last() int64 {
	if !p.splice.On() {
		return 0
	}
	return max(p.splice.Next()-1, 0)
}

// events is a stream of events to one client. It is for one goroutine.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	session string
	at      []*place
	watch   Watch
	stored  func(ctx context.Context, session, name string, from int64) iter.Seq2[channel.Batch, error]
	missing time.Duration
	// doubt is until when the store is asked for dropped live frames, which may be stored later than they were dropped.
	doubt time.Time
	ended bool // a frame said that the session has ended
	out   bytes.Buffer
}

// eventsBuffer is how many bytes of events are gathered before they are written.
const eventsBuffer = 32 << 10

// drain sends the live frames, and the stored ones if the reader is behind, and reports whether there were any. It
// fails with channel.ErrGap if a frame that the reader needs has expired, and with unavailable if the store is away.
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
		e.doubt = time.Now().Add(e.missing) // The rest of the batches is forgotten.
	}
	sent = e.out.Len() > 0
	return sent, errors.Join(err, e.flush())
}

// advance sends the frames of one channel.
func (e *events) advance(ctx context.Context, p *place, batches []channel.Batch) error {
	if p.splice.Filling() { // from before the live ones
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

// doubtful reports whether dropped live frames may not be stored yet.
func (e *events) doubtful() bool { return time.Now().Before(e.doubt) }

// filling reports whether published frames are not stored yet, or may not be.
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

// fill sends the stored frames from the reader's place on.
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

// obey sends the frames of a batch that is to be delivered. It fails with channel.ErrGap for a reader whose frames are
// lost.
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

// batch adds the frames of a batch, which the splice has passed already. The id of an event is the place in all
// channels.
func (e *events) batch(p *place, b channel.Batch) {
	seq := b.First
	b.Frames(func(frame []byte) bool {
		kind := typeOf(frame)
		if kind == frametype.SessionStateChanged.Name {
			var f struct{ Payload struct{ State string } }
			_ = json.Unmarshal(frame, &f) // kaged wrote it
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

// typeOf returns the type of a frame, which stands before its payload.
func typeOf(frame []byte) string {
	_, rest, _ := bytes.Cut(frame, []byte(`"type":"`))
	kind, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(kind)
}

// flush writes the gathered events.
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

// lost says that the reader's place is gone.
func (e *events) lost() {
	e.closing("resume_failed", "The frames since then are not kept any more; read the session again.")
}

// closing says why the stream ends. Its event has no id: a client that comes back resumes where it was.
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
