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
	// wireFactor is the limit of a stream in multiples of the answer's limit, because most of a delta is framing.
	wireFactor = 16
	// eventSlack is the permitted size of an event beyond the answer, which the last event may repeat.
	eventSlack = 1 << 20
	// drainBytes is the number of bytes read after a finished stream, so that its connection can be reused.
	drainBytes = 64 << 10
)

// Options are common to all calls of a driver.
type Options struct {
	// Client makes the requests, usually the result of [NewClient] for all drivers of a process; nil is
	// http.DefaultClient.
	Client *http.Client
	// Idle limits the silence of a provider, comments included, before and during an answer; 0 is DefaultIdle.
	Idle time.Duration
	// Longest limits the total wait for a provider in one call. Comments prevent the end by Idle, and an answer of
	// comments only still ends by Longest. 0 is DefaultLongest.
	Longest time.Duration
	// Drain limits the time from the answer's last event to the end of the stream; after it the connection is closed and
	// not reused. 0 is DefaultDrain.
	Drain time.Duration
	// Large limits the large answers of all drivers of a process together; nil means no limit.
	Large Large
	// MaxAnswer limits the bytes of an answer: text, thinking, calls with their names and ids, opaque data, and a fixed
	// size for each block; 0 is DefaultMaxAnswer.
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

// Decoder decodes a provider's events. It is used for one call.
type Decoder interface {
	// Decode decodes one event and writes its content to out. The event's data is valid only during the call. A failure
	// reported by the provider is an [*EventError]; a refusal to answer is the result of [Refusal]; any other error
	// reports an event outside the protocol. After out.Finish no further event comes.
	Decode(ev Event, out *Output) error
	// End is called if the stream ends without out.Finish: it may finish an answer that is nevertheless complete, or
	// return the reason of its absence.
	End(out *Output) error
}

// Call is one streaming call.
type Call struct {
	// Target is the target of the call. Errors contain its provider's name, or else its driver's, and never its key and
	// header values.
	Target llm.Target
	// Options are the driver's.
	Options Options
	// Request is the request. Tool names and call ids in the answer are converted back to its spelling.
	Request llm.Request
	// Names is the encoding of tool names that the request was built with.
	Names *Names
	// Body is the request's body, unless Open makes one.
	Body *Body
	// Open sends the request with the given client and returns a successful answer with an unread
	// body.
	Open func(ctx context.Context, client *http.Client) (*http.Response, error)
	// Decoder reads the answer.
	Decoder Decoder
}

// Stream makes the call and yields its events as llm.Driver specifies. Iterate once: a second iteration would use a
// used decoder.
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

// run is a running call.
type run struct {
	call   Call
	parent context.Context
	ctx    context.Context
	watch  *watchdog
	yield  func(llm.Event, error) bool
	out    *Output
	large  bool // whether it counts in Options.Large
}

// do makes the call. It returns the error to yield, nil if the answer was complete or its reader has stopped.
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
	var about *llm.Body
	if body := r.call.Body; body != nil {
		client.Transport = bodyTransport{client.Transport, body}
		about = &body.about
	}
	if hold := r.call.Request.Hold; hold != nil {
		client.Transport = holdTransport{client.Transport, about, func(ctx context.Context, body llm.Body) error {
			r.watch.stop()
			defer r.watch.start()
			return hold(ctx, body)
		}}
	}
	return client
}

// read passes events to the decoder until the answer is finished, its reader has stopped, or an error occurs.
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

// wait waits, if the answer has become a large one, until it may be read further.
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

// drain reads the rest of a finished stream, normally only its end, so that the connection can be reused.
func (r *run) drain(body io.Reader) {
	r.watch.limit = r.call.Options.drain()
	_, _ = io.CopyN(io.Discard, &watchedBody{src: body, watch: r.watch, left: drainBytes}, drainBytes)
}

// checkStream refuses a successful answer that is not an event stream, or that is compressed without a request for it.
// A JSON body may be an error that the server sent with the wrong status.
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

// watchdog cancels a call if one wait exceeds its limit, or all waits together the remaining time. It runs only during
// waits, so that a slow reader is not mistaken for a silent provider.
type watchdog struct {
	limit, left time.Duration
	began       time.Time // start of the current wait, zero without one
	last        atomic.Bool
	timer       *time.Timer
}

// The causes of a cancellation by the watchdog.
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

// watchedBody is a body with a limit for silence and for size.
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
