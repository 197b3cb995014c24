package processes

import (
	"context"
	"errors"
	"math"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/workspace/text"
)

// Page is a piece of a process's output, with the process's state after the piece was read.
type Page struct {
	Process
	// Output is the text of the bytes from number From to Next, without the byte at Next.
	Output     string
	From, Next int64
	// Omitted is the number of requested bytes before From that are missing.
	Omitted int64
}

const (
	// nothing is the attach offset that returns no output.
	nothing = math.MaxInt64
	// gather is the time for which a poll collects further output after the first piece: programs write a line in several
	// pieces.
	gather = 50 * time.Millisecond
	// unsettled is the maximum number of bytes held back at the end of the output because the next bytes may change their
	// text.
	unsettled = 4 << 10
)

// errEnough stops a transfer of output after the wanted bytes.
var errEnough = errors.New("enough was read")

// ignore discards output.
func ignore(int64, []byte) error { return nil }

// Status returns the present state of a process. It fails with process_not_found and unavailable.
func (t *Table) Status(ctx context.Context, sessionID, agent, id string) (Process, error) {
	s := t.open(sessionID)
	defer t.close(s)
	e, err := s.find(agent, id)
	if err != nil {
		return Process{}, err
	}
	return t.state(ctx, s, e)
}

// Wait returns the state of a process when the process has ended, or after the duration most. It fails as Status does.
func (t *Table) Wait(ctx context.Context, sessionID, agent, id string, most time.Duration) (Process, error) {
	s := t.open(sessionID)
	defer t.close(s)
	e, err := s.find(agent, id)
	if err != nil {
		return Process{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	known, err := t.host.Attach(bounded, id, nothing, true, ignore)
	if err != nil && ctx.Err() == nil {
		return t.state(ctx, s, e) // the process still runs, or its host was restarted
	}
	return t.settle(s, e, known, late(ctx, err))
}

func (t *Table) state(ctx context.Context, s *session, e *entry) (Process, error) {
	known, err := t.attach(ctx, e, nothing, ignore)
	return t.settle(s, e, known, err)
}

// attach passes the existing output from byte number from on to output. It waits for no further output.
func (t *Table) attach(
	ctx context.Context,
	e *entry,
	from int64,
	output func(at int64, data []byte) error,
) (contract.Process, error) {
	bounded, cancel := context.WithTimeout(ctx, t.opts.Patience)
	defer cancel()
	known, err := t.host.Attach(bounded, e.ID, from, false, output)
	return known, late(ctx, err)
}

// Poll returns the output since the last poll, cut to its last limit characters. Without output Poll waits until
// there is some, the process ends or the duration wait has passed. show receives all text as it arrives. Poll fails
// with process_not_found and unavailable.
func (t *Table) Poll(
	ctx context.Context,
	sessionID, agent, id string,
	limit int,
	wait time.Duration,
	show func(string),
) (Page, error) {
	s := t.open(sessionID)
	defer t.close(s)
	e, err := s.find(agent, id)
	if err != nil {
		return Page{}, err
	}
	s.mu.Lock()
	from := e.read
	s.mu.Unlock()
	c := &collector{
		most:  limit * utf8.UTFMax,
		start: from,
		at:    from,
		shown: text.Printed{Terminal: e.Terminal},
		show:  show,
	}
	known, err := t.attach(ctx, e, from, c.add)
	if err == nil && c.at == from && known.Exit == nil && wait > 0 {
		if known, err = t.follow(ctx, known, c, wait); err != nil && ctx.Err() == nil {
			known, err = t.attach(ctx, e, c.at, c.add) // its host was restarted
		}
	}
	p, err := t.settle(s, e, known, err)
	if err != nil {
		return Page{}, err
	}
	raw := c.raw
	if p.Status == Running {
		raw = settled(raw, e.Terminal)
	}
	next := c.start + int64(len(raw))
	raw = []byte(clip.Tail(string(raw), limit))
	page := Page{Process: p, From: next - int64(len(raw)), Next: next}
	raw, page.From = wholeFrom(raw, page.From, from)
	page.Omitted, page.Output = page.From-from, readable(raw, e.Terminal)
	s.mu.Lock()
	defer s.mu.Unlock()
	// A new poll proves that the caller received the answer to the previous poll.
	e.read = max(e.read, page.Next)
	if e.Shown != from {
		e.Shown = from
		t.save(s)
	}
	page.Unread = e.unread()
	return page, nil
}

// follow waits until a running process writes output, and for the duration gather after that, or until the process
// ends. It returns the state at that time.
func (t *Table) follow(
	ctx context.Context,
	known contract.Process,
	c *collector,
	wait time.Duration,
) (contract.Process, error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var gathering *time.Timer
	now, err := t.host.Attach(bounded, known.ID, c.at, true, func(at int64, data []byte) error {
		if gathering == nil {
			gathering = time.AfterFunc(gather, cancel)
		}
		return c.add(at, data)
	})
	if gathering != nil {
		gathering.Stop()
	}
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		known.OutputEnd = c.at // the process still runs
		return known, nil
	}
	return now, err
}

// ReadAt returns at most limit characters of a process's output from byte number from, or from the first kept byte
// after it. It does not affect the next Poll. ReadAt fails with process_not_found and unavailable.
func (t *Table) ReadAt(ctx context.Context, sessionID, agent, id string, from int64, limit int) (Page, error) {
	s := t.open(sessionID)
	defer t.close(s)
	e, err := s.find(agent, id)
	if err != nil {
		return Page{}, err
	}
	most := limit * utf8.UTFMax
	var raw []byte
	start := int64(-1)
	known, err := t.attach(ctx, e, from, func(at int64, data []byte) error {
		switch {
		case start < 0:
			start = at
		case at != start+int64(len(raw)):
			return errEnough // the rest follows a gap
		}
		if raw = append(raw, data...); len(raw) > most {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		known, err = t.attach(ctx, e, nothing, ignore)
	}
	p, err := t.settle(s, e, known, err)
	if err != nil {
		return Page{}, err
	}
	if start < 0 {
		start = min(max(from, p.Start), max(p.End, 0))
	}
	raw, start = wholeFrom(raw, start, from)
	if p.Status == Running && len(raw) <= most {
		raw = settled(raw, e.Terminal)
	}
	head, _ := clip.Runes(string(raw), limit)
	return Page{
		Process: p, Output: readable([]byte(head), e.Terminal), From: start, Next: start + int64(len(head)),
		Omitted: max(0, start-from),
	}, nil
}

// collector keeps the last bytes of output that arrives in pieces.
type collector struct {
	most  int
	raw   []byte // the bytes from number start to at, without a gap
	start int64
	at    int64
	shown text.Printed
	show  func(string)
}

func (c *collector) add(at int64, data []byte) error {
	if piece := c.shown.Write(data); piece != "" {
		c.show(piece)
	}
	if at != c.at || c.raw == nil {
		c.raw, c.start = nil, at
	}
	c.raw = append(c.raw, data...)
	c.at = at + int64(len(data))
	if len(c.raw) > 2*c.most {
		cut := len(c.raw) - c.most
		c.raw, c.start = append([]byte(nil), c.raw[cut:]...), c.start+int64(cut)
	}
	return nil
}

// settled drops the unfinished end of a running process's output: an incomplete character, or a
// carriage return that may belong to a line's end.
func settled(raw []byte, terminal bool) []byte {
	if end := text.Settled(raw, terminal); len(raw)-end <= unsettled {
		return raw[:end]
	}
	return raw
}

// wholeFrom drops the leading bytes of a character that lacks its first byte. raw begins at byte number at. raw is not
// changed if at is the requested offset asked.
func wholeFrom(raw []byte, at, asked int64) ([]byte, int64) {
	if at == asked {
		return raw, at
	}
	n := 0
	for n < len(raw) && n < utf8.UTFMax-1 && !utf8.RuneStart(raw[n]) {
		n++
	}
	return raw[n:], at + int64(n)
}

// readable returns a piece of output as text.
func readable(raw []byte, terminal bool) string {
	p := text.Printed{Terminal: terminal}
	return p.Write(raw) + p.Finish()
}
