package loop

import (
	"context"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
)

// answer is the result of one model call, complete or not.
type answer struct {
	target   llm.Target
	accepted bool
	// used is the usage. It is an estimate for an answer that broke off or was cancelled, and nil for an unaccepted
	// call.
	used *llm.Usage
	// done is the complete answer; nil if the call ended early.
	done *llm.Done
	// ttft is the time to the first piece; nil without a piece. duration is the time since the request was sent.
	ttft     *time.Duration
	duration time.Duration
}

// reader consumes the events of one model call.
type reader struct {
	run   *invocation
	began time.Time
	text  *coalescer
	out   answer
	// counted is the usage that the provider reported at the beginning of its answer. received is the size of the
	// answer so far in bytes.
	counted  llm.Usage
	received int
}

// stream makes one model call and relays its events. Also after an error the answer has its usage and whether it was
// accepted.
func (v *invocation) stream(
	ctx context.Context, driver llm.Driver, req llm.Request, target llm.Target,
) (answer, error) {
	rd := &reader{run: v, began: time.Now(), text: newCoalescer(v.deps.Beat, v.emit), out: answer{target: target}}
	if hold := req.Hold; hold != nil {
		req.Hold = func(ctx context.Context, body llm.Body) error {
			defer func() { rd.began = time.Now() }()
			return hold(ctx, body)
		}
	}
	defer rd.text.close() // also after a panic of the driver
	err := rd.read(ctx, driver, req)
	if closing := rd.text.close(); err == nil {
		err = closing
	}
	rd.out.duration = time.Since(rd.began)
	if err != nil && rd.out.accepted {
		rd.out.used = rd.estimate(&req)
	}
	return rd.out, err
}

// estimate returns the usage of an answer that broke off or was cancelled. Providers charge for it, but most report
// usage only at the end of an answer.
func (rd *reader) estimate(req *llm.Request) *llm.Usage {
	u := rd.counted.Bounded(llm.MaxReported)
	if u.TotalInput() == 0 {
		u.Input = rd.run.estimate(requestSize(req))
	}
	u.Output = max(u.Output, tokensOf(int64(rd.received)))
	return &u
}

func (rd *reader) read(ctx context.Context, driver llm.Driver, req llm.Request) error {
	for ev, err := range driver.Stream(ctx, req) {
		if err != nil {
			rd.received = max(rd.received, ev.Received)
			return err
		}
		switch {
		case ev.Accepted != nil:
			rd.counted = ev.Accepted.Usage
			err = rd.accept()
		case ev.TextDelta != "":
			err = rd.piece(ctx, contract.Delta{Text: ev.TextDelta})
		case ev.ThinkingDelta != "":
			err = rd.piece(ctx, contract.Delta{Thinking: true, Text: ev.ThinkingDelta})
		case ev.Done != nil:
			return rd.finish(ev.Done)
		}
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fault.New(fault.ProviderBadResponse, "The answer of provider %s broke off.", rd.out.target.Provider).
		With("provider", rd.out.target.Provider)
}

func (rd *reader) accept() error {
	if rd.out.accepted {
		return nil
	}
	rd.out.accepted = true
	return rd.run.started(rd.out.target)
}

// piece relays a piece of text. Invalid UTF-8, which no driver should yield, is replaced.
func (rd *reader) piece(ctx context.Context, d contract.Delta) error {
	if err := rd.accept(); err != nil {
		return err
	}
	d.Text = strings.ToValidUTF8(d.Text, "\uFFFD")
	if rd.out.ttft == nil {
		ttft := time.Since(rd.began)
		rd.out.ttft = &ttft
	}
	if err := rd.run.pipeline.output(ctx, d); err != nil {
		return err
	}
	rd.received += len(d.Text)
	rd.keep(d)
	return rd.text.add(d.Thinking, d.Text)
}

// keep adds a piece to the text that is kept if the answer breaks off. Pieces of one kind in a row share a block, and
// the block's text is joined on demand.
func (rd *reader) keep(d contract.Delta) {
	k := &rd.run.kept
	if n := len(*k); n > 0 && (*k)[n-1].thinking == d.Thinking {
		(*k)[n-1].text.WriteString(d.Text)
		return
	}
	piece := &keptBlock{thinking: d.Thinking}
	piece.text.WriteString(d.Text)
	*k = append(*k, piece)
}

// keptBlock is text of an incomplete answer.
type keptBlock struct {
	thinking bool
	text     llm.Pieces
}

func keptBlocks(kept []*keptBlock) []llm.Block {
	var out []llm.Block
	for _, k := range kept {
		if k.thinking {
			out = append(out, llm.Block{Thinking: &llm.Thinking{Text: k.text.String()}})
		} else {
			out = append(out, llm.Block{Text: &llm.Text{Text: k.text.String()}})
		}
	}
	return out
}

func (rd *reader) finish(d *llm.Done) error {
	if err := rd.accept(); err != nil {
		return err
	}
	rd.out.done = &llm.Done{Blocks: rd.run.clean(d.Blocks), Stop: d.Stop, Usage: d.Usage.Bounded(llm.MaxReported)}
	rd.out.used = &rd.out.done.Usage
	if slices.ContainsFunc(rd.out.done.Blocks, func(b llm.Block) bool { return b.Call != nil }) {
		rd.out.done.Stop = llm.StopToolUse
	} else if d.Stop != llm.StopLength {
		rd.out.done.Stop = llm.StopEnd
	}
	return nil
}

// maxName is the most bytes of a tool's name and of a call id in a model's answer. Every event of the call repeats
// both.
const maxName = 256

// clean returns blocks in the form that is stored and sent: valid UTF-8, no empty blocks, and call ids that are
// unique in the conversation. A long tool name is cut, so that it matches no tool. A long call id is replaced. All
// call ids of a child are replaced, so that they are unique in the session.
func (v *invocation) clean(blocks []llm.Block) []llm.Block {
	out := make([]llm.Block, 0, len(blocks))
	for _, b := range blocks {
		switch {
		case b.Text != nil && b.Text.Text != "":
			out = append(out, llm.Block{Text: &llm.Text{Text: valid(b.Text.Text)}})
		case b.Thinking != nil && (b.Thinking.Text != "" || len(b.Thinking.Opaque) > 0):
			out = append(out, llm.Block{Thinking: &llm.Thinking{
				Text: valid(b.Thinking.Text), Opaque: b.Thinking.Opaque, Driver: b.Thinking.Driver,
			}})
		case b.Call != nil:
			call := llm.ToolCall{ID: valid(b.Call.ID), Name: shortName(valid(b.Call.Name)), Input: valid(b.Call.Input)}
			_, taken := v.callIDs[call.ID]
			if taken || v.parent != nil || call.ID == "" || len(call.ID) > maxName {
				call.ID = "call_" + ident.New()
			}
			v.callIDs[call.ID] = struct{}{}
			out = append(out, llm.Block{Call: &call})
		}
	}
	return out
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// shortName cuts valid text to maxName bytes at a character boundary.
func shortName(s string) string { return strings.ToValidUTF8(clip.Bytes(s, maxName), "") }
