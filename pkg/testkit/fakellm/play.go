package fakellm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/llm"
)

// encoder writes the events of one answer in a provider's format. A block is opened, filled and closed before the next.
type encoder interface {
	header(h http.Header)
	begin(b []byte) []byte
	open(b []byte, kind blockKind) []byte
	delta(b []byte, text string) []byte
	close(b []byte) []byte
	call(b []byte, id, name, input string) []byte
	redacted(b []byte, data string) []byte
	ping(b []byte) []byte
	failure(b []byte, kind, message string) []byte
	finish(b []byte) []byte
	// shape distinguishes the states in which deltas of the same text have different bytes.
	shape() string
	// skip changes the state as if these deltas had been written.
	skip(count int, text string)
}

type blockKind int

const (
	textBlock blockKind = iota
	thinkingBlock
)

// answer holds facts about the whole answer for the encoders.
type answer struct {
	model   string
	usage   llm.Usage
	counted bool
	stop    string
	calls   int
	output  int
	// request is the request, for parts that depend on it.
	request *Request
}

// used returns the usage reported at the end.
func (a *answer) used() llm.Usage {
	u := a.usage
	if !a.counted {
		u.Output = int64(max(1, a.output/4))
	}
	return u
}

var (
	errCut  = errors.New("cut")
	errEnd  = errors.New("ended")
	errGone = errors.New("client gone")
)

// player plays a step.
type player struct {
	w      http.ResponseWriter
	ctx    context.Context
	server *Server
	enc    encoder
	answer *answer
	buf    []byte
	sent   int
	limit  int
	atEnd  error
	pace   time.Duration
	header bool
	begun  bool
	raw    bool
}

// play answers a request with a step.
func (s *Server) play(w http.ResponseWriter, hr *http.Request, r *Request, step Step) {
	a := &answer{model: r.Model, request: r}
	a.usage = s.inputOf(r)
	p := &player{w: w, ctx: hr.Context(), server: s, answer: a, enc: newEncoder(r, a), limit: -1}
	for _, act := range step {
		switch act.verb {
		case verbUsage:
			a.usage, a.counted = act.usage, true
		case verbStop:
			a.stop = act.text
		case verbCut:
			p.limit, p.atEnd = act.n, errCut
		case verbEnd:
			p.limit, p.atEnd = act.n, errEnd
		}
	}
	s.mu.Lock()
	r.Usage = a.usage
	s.mu.Unlock()
	err := p.run(step)
	if err == nil {
		err = p.flush()
	}
	if errors.Is(err, errCut) {
		// The server breaks the connection before the end of the body.
		panic(http.ErrAbortHandler)
	}
}

// inputOf returns the derived usage of a request's input.
func (s *Server) inputOf(r *Request) llm.Usage {
	s.mu.Lock()
	c := s.cache
	s.mu.Unlock()
	if c != nil {
		return c.usage(r)
	}
	return llm.Usage{Input: int64(max(1, len(r.Body)/tokenBytes))}
}

func newEncoder(r *Request, a *answer) encoder {
	switch r.Format {
	case Anthropic:
		return &anthropicEncoder{answer: a}
	case OpenAI:
		return &responsesEncoder{answer: a}
	case Google:
		return &googleEncoder{answer: a}
	default:
		return newChatEncoder(a)
	}
}

func (p *player) run(step Step) error {
	for _, act := range step {
		if act.verb == verbStatus {
			writeStatus(p.w, p.answer.request.Format, act)
			return errEnd
		}
		if err := p.act(act); err != nil {
			return err
		}
		if act.verb == verbError {
			return nil
		}
	}
	if p.begun || !p.raw {
		p.begin()
		p.buf = p.enc.finish(p.buf)
	}
	return nil
}

func (p *player) act(a Action) error {
	switch a.verb {
	case verbSay:
		return p.block(textBlock, a.text)
	case verbThink:
		return p.block(thinkingBlock, a.text)
	case verbDeltas:
		return p.deltas(a)
	case verbRedacted:
		p.begin()
		p.buf = p.enc.redacted(p.buf, a.text)
	case verbTool:
		p.begin()
		id := a.id
		if id == nil {
			made := fmt.Sprintf("call_%06d", p.server.callNumber())
			id = &made
		}
		p.answer.calls++
		p.answer.output += len(a.text)
		p.buf = p.enc.call(p.buf, *id, wireName(a.name), a.text)
	case verbPing:
		p.begin()
		p.buf = p.enc.ping(p.buf)
	case verbError:
		p.begin()
		p.buf = p.enc.failure(p.buf, a.name, a.text)
	case verbRaw:
		p.raw = true
		p.buf = append(p.buf, a.text...)
	case verbPace:
		p.pace = a.wait
	case verbDelay:
		return p.wait(time.After(a.wait), nil)
	case verbGate:
		return p.wait(nil, a.gate)
	case verbHang:
		return p.wait(nil, nil)
	}
	return nil
}

// begin writes the part before the first block, once.
func (p *player) begin() {
	if !p.begun {
		p.begun = true
		p.buf = p.enc.begin(p.buf)
	}
}

// block writes a block of text in deltas of one word each.
func (p *player) block(kind blockKind, text string) error {
	p.begin()
	p.answer.output += len(text)
	p.buf = p.enc.open(p.buf, kind)
	for _, word := range words(text) {
		p.buf = p.enc.delta(p.buf, word)
		if p.pace > 0 {
			if err := p.wait(time.After(p.pace), nil); err != nil {
				return err
			}
		}
	}
	p.buf = p.enc.close(p.buf)
	return nil
}

// load is the bytes of a run of deltas and the end of each.
type load struct {
	bytes []byte
	ends  []int
}

// loads caches loads by shape. There are few: one for each kind of load test.
var loads sync.Map

// deltas writes a run of deltas with cached bytes.
func (p *player) deltas(a Action) error {
	p.begin()
	p.buf = p.enc.open(p.buf, textBlock)
	key := fmt.Sprint(p.enc.shape(), a.n, a.size)
	cached, ok := loads.Load(key)
	text := DeltaText(a.n, a.size)
	if ok {
		p.enc.skip(a.n, text)
	} else {
		l := &load{}
		for i := range a.n {
			l.bytes = p.enc.delta(l.bytes, string(appendDelta(nil, i, a.size)))
			l.ends = append(l.ends, len(l.bytes))
		}
		cached, _ = loads.LoadOrStore(key, l)
	}
	l := cached.(*load)
	p.answer.output += len(text)
	if err := p.send(l, a.wait); err != nil {
		return err
	}
	p.buf = p.enc.close(p.buf)
	return nil
}

// send writes a load, at a constant rate if there is an interval.
func (p *player) send(l *load, interval time.Duration) error {
	if interval <= 0 {
		p.buf = append(p.buf, l.bytes...)
		return nil
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	start := 0
	for _, end := range l.ends {
		p.buf = append(p.buf, l.bytes[start:end]...)
		start = end
		if err := p.wait(tick.C, nil); err != nil {
			return err
		}
	}
	return nil
}

// wait sends the written part and waits for a time or a gate; without either, it waits for the client's end.
func (p *player) wait(until <-chan time.Time, g *Gate) error {
	if p.header || len(p.buf) > 0 || p.begun {
		if err := p.flush(); err != nil {
			return err
		}
	}
	var open chan struct{}
	if g != nil {
		g.arrive()
		open = g.open
	}
	select {
	case <-until:
		return nil
	case <-open:
		return nil
	case <-p.ctx.Done():
		return errGone
	case <-p.server.closing:
		return errCut
	}
}

// flush sends the written part, up to the limit.
func (p *player) flush() error {
	if !p.header {
		p.header = true
		p.enc.header(p.w.Header())
		p.w.WriteHeader(http.StatusOK)
	}
	b := p.buf
	if p.limit >= 0 && p.sent+len(b) >= p.limit {
		b = b[:p.limit-p.sent]
	}
	n, err := p.w.Write(b)
	p.sent += n
	p.buf = p.buf[:0]
	if err == nil {
		err = http.NewResponseController(p.w).Flush()
	}
	switch {
	case err != nil:
		return errGone
	case p.limit >= 0 && p.sent >= p.limit:
		return p.atEnd
	}
	return nil
}

// words splits text into words, each with the preceding space. Long runs without spaces are split too.
func words(text string) []string {
	const longest = 24
	var out []string
	for text != "" {
		n := strings.IndexAny(text[1:min(len(text), longest+1)], " \n") + 1
		if n == 0 {
			n = len(text)
		}
		if n > longest {
			n = longest
			for n > 1 && !utf8.RuneStart(text[n]) {
				n--
			}
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}
