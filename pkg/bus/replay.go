package bus

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// Requests of JetStream's API. A request to the leader sees all acknowledged messages. A direct get returns many
// messages at a time, comes from any server with a copy, and may lack the newest ones.
const (
	leaderGet = "$JS.API.STREAM.MSG.GET." + streamName
	directGet = "$JS.API.DIRECT.GET." + streamName
)

// Size of one page of a replay, which limits the replay's memory.
const (
	pageMessages = 256
	pageBytes    = 1 << 20
)

// laggards is the time that a replay waits for a server without the newest messages, and lagPause the interval of its
// requests.
const (
	laggards = 2 * time.Second
	lagPause = 20 * time.Millisecond
)

// msgGet is a request for messages.
type msgGet struct {
	Seq      uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// Tail returns the last retained message of a channel's subject; found is false without one. Messages acknowledged
// before the call are seen.
func (f *Frames) Tail(ctx context.Context, session, channel string) (tail Batch, found bool, err error) {
	subj, err := subject(session, channel)
	if err != nil {
		return Batch{}, false, err
	}
	body, _ := json.Marshal(msgGet{Last: subj})
	answer, err := f.conn.request(ctx, &nats.Msg{Subject: leaderGet, Data: body})
	if err != nil {
		return Batch{}, false, classify(ctx, err, "NATS does not answer.")
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Header  []byte `json:"hdrs"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return Batch{}, false, unavailable(err, "NATS gave an answer that makes no sense.")
	}
	if got.Error != nil {
		if got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound ||
			got.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound {
			return Batch{}, false, nil
		}
		return Batch{}, false, unavailable(got.Error, "NATS cannot read the stream of frames.")
	}
	header, err := nats.DecodeHeadersMsg(got.Message.Header)
	if err != nil && len(got.Message.Header) > 0 {
		return Batch{}, false, unavailable(err, "NATS gave an answer that makes no sense.")
	}
	tail, ok := parse(got.Message.Subject, header, got.Message.Data, got.Message.Seq)
	if !ok {
		return Batch{}, false, fault.New(fault.Internal, "The last message of a channel was not written by kaged.")
	}
	return tail, true, nil
}

// Replay yields the retained batches of a channel that reach frame from or later, in order and without a gap, up to the
// last batch stored when the iteration begins. The first batch may begin before from (see [Batch.Frames]). Epoch
// markers from there on are included. known is the last frame that the caller knows to be published, 0 for unknown.
//
// An iteration that ends with an error yields it last, with a zero batch: [ErrGap] if a frame at or after from is not
// retained, which includes an empty subject with from <= known; fault.Unavailable if the bus is away. Each range over
// the result reads from the server and holds at most one page, about a megabyte.
func (f *Frames) Replay(ctx context.Context, session, channel string, from, known int64) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		if err := f.replay(ctx, session, channel, max(from, 1), known, yield); err != nil {
			yield(Batch{}, err)
		}
	}
}

// replay also returns nil if yield has asked to stop.
func (f *Frames) replay(
	ctx context.Context, session, channel string, from, known int64, yield func(Batch, error) bool,
) error {
	tail, found, err := f.Tail(ctx, session, channel)
	if err != nil {
		return err
	}
	if !found {
		if from <= known {
			return ErrGap
		}
		return nil
	}
	r, err := f.newReader(ctx, session, channel)
	if err != nil {
		return err
	}
	defer r.close()
	next, more, err := r.upTo(tail, from, yield)
	if err == nil && more && next <= known {
		return ErrGap // The stream has lost its last messages.
	}
	return err
}

// reader reads pages of one subject.
type reader struct {
	ctx     context.Context
	frames  *Frames
	subject string
	inbox   string
	sub     *nats.Subscription
	answers chan *nats.Msg
}

func (f *Frames) newReader(ctx context.Context, session, channel string) (*reader, error) {
	subj, err := subject(session, channel)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, frames: f, subject: subj, inbox: f.conn.nc.NewInbox()}
	// Room for a page and its end marker: the client drops messages beyond it.
	r.answers = make(chan *nats.Msg, pageMessages+1)
	if r.sub, err = f.conn.nc.ChanSubscribe(r.inbox, r.answers); err != nil {
		return nil, classify(ctx, err, "NATS cannot be reached.")
	}
	return r, nil
}

func (r *reader) close() { _ = r.sub.Unsubscribe() }

// upTo yields the batches after frame from, up to tail. It returns the number of the frame after the last one, and more
// false if yield has asked to stop.
func (r *reader) upTo(tail Batch, from int64, yield func(Batch, error) bool) (next int64, more bool, err error) {
	next = from
	if from > tail.Next() || (from == tail.Next() && tail.Count > 0) {
		return next, true, nil
	}
	at, err := r.seek(from, tail)
	if err != nil {
		return next, true, err
	}
	for at <= tail.StreamSeq {
		p, err := r.page(at, pageMessages, tail)
		if err != nil {
			return next, true, err
		}
		at = p.last + 1
		for _, b := range p.batches {
			switch {
			case b.StreamSeq > tail.StreamSeq:
				return next, true, nil
			case b.Next() <= next && (b.Count > 0 || b.Seq < next):
				continue
			case b.Seq > next:
				return next, true, ErrGap
			case !yield(b, nil):
				return next, false, nil
			}
			next = b.Next()
		}
	}
	return next, true, nil
}

// seek finds the place in the stream where a search for frame from begins. The messages of one subject are spread over
// the stream, and their numbers grow with their places. It looks back from the tail in growing steps, because most
// readers were away briefly, and then by bisection.
func (r *reader) seek(from int64, tail Batch) (uint64, error) {
	low, high := uint64(1), tail.StreamSeq
	found := func(at uint64) (place uint64, before bool, err error) {
		p, err := r.page(at, 1, tail)
		if err != nil || len(p.batches) == 0 {
			return p.last, false, err
		}
		return p.last, p.batches[0].Next() <= from, nil
	}
	low, before, err := found(low)
	if err != nil || !before {
		return low, err
	}
	// low stays the place of a message before from. The subject has no earlier message between high and the first wanted
	// one.
	for step := uint64(pageMessages); high-low > pageMessages; step *= 4 {
		look := low + (high-low)/2
		if back := tail.StreamSeq - min(step, tail.StreamSeq); back > look && back < high {
			look = back
		}
		place, before, err := found(look)
		switch {
		case err != nil:
			return 0, err
		case before && place < high:
			low = place
		default:
			high = look
		}
	}
	return low, nil
}

// page reads one to n messages from a place on. tail proves that one exists, so an empty answer comes from a server
// without the newest messages, or the messages have expired.
func (r *reader) page(at uint64, n int, tail Batch) (page, error) {
	deadline := time.Now().Add(laggards)
	for {
		req := msgGet{Seq: at, Next: r.subject}
		if n > 1 {
			req.Batch, req.MaxBytes = n, pageBytes
		}
		p, err := r.ask(req)
		if err != nil || p.last > 0 {
			return p, err
		}
		now, found, err := r.frames.Tail(r.ctx, tail.Session, tail.Channel)
		switch {
		case err != nil:
			return p, err
		case !found || now.StreamSeq < tail.StreamSeq:
			return p, ErrGap
		case time.Now().After(deadline):
			return p, unavailable(nil, "NATS does not have all frames on this server yet.")
		}
		if !retry.Wait(r.ctx, lagPause) {
			return p, fault.From(r.ctx.Err())
		}
	}
}

// page is an answer: its batches, and the place of its last message, 0 for an empty page.
type page struct {
	batches []Batch
	last    uint64
}

// ask sends one request and collects its answers.
func (r *reader) ask(req msgGet) (page, error) {
	var p page
	ctx, cancel := r.frames.conn.guard(r.ctx)
	defer cancel()
	body, _ := json.Marshal(req)
	if err := r.frames.conn.nc.PublishRequest(directGet, r.inbox, body); err != nil {
		return p, classify(r.ctx, err, "NATS cannot be reached.")
	}
	for {
		var msg *nats.Msg
		select {
		case msg = <-r.answers:
		case <-ctx.Done():
			return p, classify(r.ctx, ctx.Err(), "NATS does not answer.")
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
			b, place, ok := parseStored(msg)
			if ok {
				p.batches = append(p.batches, b)
			}
			p.last = max(p.last, place)
			if req.Batch == 0 {
				return p, nil // A request for one message has one answer.
			}
		case "204": // the end of the page
			return p, nil
		case "404":
			return page{}, nil
		case "503":
			return p, unavailable(nats.ErrNoResponders, "NATS does not have the stream of frames.")
		default:
			return p, unavailable(errors.New(status+" "+msg.Header.Get("Description")), "NATS cannot read the stream of frames.")
		}
	}
}

// parseStored parses a message of the stream. ok is false for a message that no kaged writer made.
func parseStored(msg *nats.Msg) (b Batch, place uint64, ok bool) {
	place, err := strconv.ParseUint(msg.Header.Get(headerStreamSeq), 10, 64)
	if err != nil {
		return Batch{}, 0, false
	}
	b, ok = parse(msg.Header.Get(headerSubject), msg.Header, msg.Data, place)
	return b, place, ok
}
