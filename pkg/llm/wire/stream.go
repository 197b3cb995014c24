package wire

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/llm"
)

// The defaults of [Options].
const (
	DefaultIdle      = 5 * time.Minute
	DefaultLongest   = time.Hour
	DefaultDrain     = 25 * time.Millisecond
	DefaultMaxAnswer = 16 << 20
)

const (
	// wireFactor is how many times the size of an answer its stream may have: most of a delta is framing.
	wireFactor = 16
	// eventSlack is the allowed size of an event beyond the answer that its last event may repeat.
	eventSlack = 1 << 20
	// drainBytes is how much of a finished stream is read so that its connection can be used again.
	drainBytes = 64 << 10
)

// Options are common to all calls of a driver.
type Options struct {
	// Client makes the requests, usually the one of [NewClient] for all drivers of a process; nil is http.DefaultClient.
	Client *http.Client
	// Idle bounds the silence of a provider, comments included, before and during an answer; 0 is
	// DefaultIdle.
	Idle time.Duration
	// Longest is how long a provider may be waited for in one call, all in all: signs of life keep an answer from being
	// silent, and an answer that consists of them ends all the same. 0 is DefaultLongest.
	Longest time.Duration
	// Drain is how long the end of a stream may take after the answer's last event: past it the connection is
	// closed and not used again. 0 is DefaultDrain.
	Drain time.Duration
	// Large bounds the large answers of all drivers of a process together; nil sets no bound.
	Large Large
	// MaxAnswer is how many bytes an answer may have: text, thinking, calls with their names and ids, and opaque data
	// together, and of each block a little more than it takes to say where it begins; 0 is DefaultMaxAnswer.
	MaxAnswer int
}

func (o Options) idle() time.Duration {
	if o.Idle > 0 {
		return o.Idle
	}
	return DefaultIdle
}

func (o Options) longest() time.Duration {
	if o.Longest > 0 {
		return o.Longest
	}
	return DefaultLongest
}

func (o Options) drain() time.Duration {
	if o.Drain > 0 {
		return o.Drain
	}
	return DefaultDrain
}

func (o Options) maxAnswer() int {
	if o.MaxAnswer > 0 {
		return o.MaxAnswer
	}
	return DefaultMaxAnswer
}

// Decoder gives a provider's events their meaning. It is made for one call.
type Decoder interface {
	// Decode takes one event and passes its content to out. Its data is valid during the call only.
	// A failure that the provider reports is an [*EventError]; a refusal to answer is made by
	// [Refusal]; any other error reports an event outside the protocol. After out.Finish no further
	// event comes.
	Decode(ev Event, out *Output) error
	// End is called when the stream ends without out.Finish: it may finish an answer that is whole
	// all the same, or return the reason why it has none.
	End(out *Output) error
}

// Call is one streaming call.
type Call struct {
	// Target is where the call goes. Its provider's name, or else its driver's, names it in errors; its key and header
	// values are kept out of them.
	Target llm.Target
	// Options are the driver's.
	Options Options
	// Request is the request: its names and call ids are given back as they are in it.
	Request llm.Request
	// Names is the encoding of tool names that the request was built with.
	Names *Names
	// Open sends the request with the given client and returns a successful answer with an unread
	// body.
	Open func(ctx context.Context, client *http.Client) (*http.Response, error)
	// Decoder reads the answer.
	Decoder Decoder
}

// Stream makes the call and yields its events as llm.Driver describes them. Each iteration would make the call again
// with a used decoder: iterate once.
func Stream(ctx context.Context, c Call) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		callCtx, cancel := context.WithCancelCause(ctx)
		defer cancel(context.Canceled)
		watch := newWatchdog(c.Options.idle(), c.Options.longest(), cancel)
		defer watch.stop()
		r := &run{call: c, parent: ctx, ctx: callCtx, watch: watch, yield: yield}
		if err := r.do(); err != nil && !r.out.stopped {
			yield(llm.Event{Received: r.out.received()}, err)
		}
	}
}

// run is a call on its way.
type run struct {
	call   Call
	parent context.Context
	ctx    context.Context
	watch  *watchdog
	yield  func(llm.Event, error) bool
	out    *Output
	large  bool // it counts among Options.Large
}

// do makes the call. It returns the error to yield, nil if the answer was complete or has no
// listener any more.
func (r *run) do() error {
	r.out = newOutput(r.call, r.yield)
	defer r.leave()
	if err := CheckTarget(r.call.Target); err != nil {
		return err
	}
	r.watch.start()
	resp, err := r.call.Open(r.ctx, r.client())
	r.watch.stop()
	if err != nil {
		return r.fail(asUnsent(err))
	}
	defer resp.Body.Close()
	body := &watchedBody{src: resp.Body, watch: r.watch, left: int64(r.call.Options.maxAnswer()) * wireFactor}
	if err := checkStream(resp); err != nil {
		return r.fail(err)
	}
	if err := r.read(NewReader(body, r.call.Options.maxAnswer()+eventSlack)); err != nil {
		return r.fail(err)
	}
	if r.out.done != nil && !r.out.stopped {
		r.yield(llm.Event{Done: r.out.done}, nil)
		r.drain(resp.Body)
	}
	return nil
}

// client returns the client of the call, which sends no byte while the request is on hold.
func (r *run) client() *http.Client {
	client := Client(r.call.Options.Client)
	if hold := r.call.Request.Hold; hold != nil {
		client.Transport = holdTransport{client.Transport, func(ctx context.Context, body llm.Body) error {
			r.watch.stop()
			defer r.watch.start()
			return hold(ctx, body)
		}}
	}
	return client
}

// read feeds the decoder until the answer is finished, its listener is gone, or an error occurs.
func (r *run) read(events *Reader) error {
	for r.out.done == nil && !r.out.stopped {
		ev, err := events.Next()
		if err != nil {
			if r.parent.Err() != nil {
				return err
			}
			if err := cmp.Or(r.call.Decoder.End(r.out), r.out.err); err != nil || r.out.done != nil {
				return err
			}
			return &brokenOff{err}
		}
		if err := cmp.Or(r.call.Decoder.Decode(ev, r.out), r.out.err); err != nil {
			return err
		}
		if err := r.wait(); err != nil {
			return err
		}
	}
	return nil
}

// wait waits, where the answer has become a large one, until it may be read on.
func (r *run) wait() error {
	turn := r.call.Options.Large
	if r.large || turn == nil || r.out.done != nil || r.out.size() < largeFrom {
		return nil
	}
	if err := turn.enter(r.ctx); err != nil {
		return err
	}
	r.large = true
	return nil
}

func (r *run) leave() {
	if r.large {
		r.call.Options.Large.leave()
	}
}

// drain reads the rest of a finished stream, normally only its end, so that the connection can be
// used again.
func (r *run) drain(body io.Reader) {
	r.watch.limit = r.call.Options.drain()
	_, _ = io.CopyN(io.Discard, &watchedBody{src: body, watch: r.watch, left: drainBytes}, drainBytes)
}

// checkStream refuses a successful answer that is no event stream, or one compressed without a
// request for it. A JSON body may be an error that the server sent with the wrong status.
func checkStream(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		if e := bodyError(errorBody(resp)); e != nil {
			return e
		}
		return errNotStream
	case kind == "text/html" || encoded(resp.Header):
		return errNotStream
	}
	return nil
}

// watchdog cancels a call when one wait exceeds its limit, or all of them together the remaining
// time. It runs only during waits, so that a slow consumer is not taken for a silent provider.
type watchdog struct {
	limit, left time.Duration
	began       time.Time // of the wait under way, zero for none
	last        atomic.Bool
	timer       *time.Timer
}

// The causes of a call that the watchdog cancelled.
var (
	errIdle    = errors.New("the provider sent nothing")
	errEndless = errors.New("the provider came to no end")
)

func newWatchdog(limit, longest time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{limit: limit, left: longest}
	w.timer = time.AfterFunc(limit, func() {
		if w.last.Load() {
			cancel(errEndless)
			return
		}
		cancel(errIdle)
	})
	w.timer.Stop()
	return w
}

func (w *watchdog) start() {
	w.began = time.Now()
	w.last.Store(w.left < w.limit)
	w.timer.Reset(min(w.limit, w.left))
}

func (w *watchdog) stop() {
	w.timer.Stop()
	if !w.began.IsZero() {
		w.left -= time.Since(w.began)
		w.began = time.Time{}
	}
}

// watchedBody is a body that may be silent and may grow only so much.
type watchedBody struct {
	src   io.Reader
	watch *watchdog
	left  int64
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	b.watch.start()
	n, err := b.src.Read(p)
	b.watch.stop()
	b.left -= int64(n)
	return n, err
}
