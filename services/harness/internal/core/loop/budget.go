package loop

import (
	"context"
	"encoding/hex"
	"math"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/budget"
)

// boundedOutput is the most output tokens of an answer under a budget in US dollars or tokens, for an agent without
// max_output_tokens. A reservation needs a bound.
const boundedOutput = 8192

// bytesPerToken is low, so that estimates are rather too high: English usually has 4, code 3.
const bytesPerToken = 3

// framing is a provider's own addition to a request, in tokens.
const framing = 64

// rehearsal is the driver that plays a script. Its models are free.
const rehearsal = "rehearsal"

// sized is an answered request: its size in bytes, and the provider's count of its input tokens.
type sized struct{ bytes, tokens int64 }

// open opens the invocation's account below its parent's account.
func (v *invocation) open(up *budget.Account) {
	v.account = v.book.Open(up, v.agent.Path, v.agent.Budget)
}

// outputBound returns max_output_tokens of the invocation's requests on a route. Under a budget it is never 0.
func (v *invocation) outputBound(route contract.Route) int {
	if v.maxOutput > 0 || !v.start.Metered && !v.account.Bounds() {
		return v.maxOutput
	}
	most := boundedOutput
	for _, t := range route.Targets {
		if n := v.deps.Prices.MaxOutput(t.Target); n > 0 {
			most = min(most, n)
		}
	}
	return most
}

// outgoing is a request that is ready to be sent.
type outgoing struct {
	call   *Call
	req    *llm.Request
	target llm.Target
	body   llm.Body
}

// reserve reserves the greatest possible use of a call, and returns when the reservation and the request's record are
// on disk. It fails with budget_exceeded if a budget does not allow the call.
func (v *invocation) reserve(ctx context.Context, o outgoing) (*budget.Reservation, error) {
	size, t := fixedSize(o.req)+v.sealed.conversationSize(), o.target
	wanted, priced := v.wanted(size, o.req.MaxOutputTokens, t)
	call := budget.Call{Wanted: wanted}
	if !priced {
		call.Unpriced = t.Provider + ":" + t.Model
	}
	v.calls++
	said := contract.CallWanted{
		Call: v.calls, Agent: v.agent.Path, Model: valid(t.Provider + ":" + t.Model), Amount: wanted, Unpriced: !priced,
		Audit: []contract.Record{v.requested(o)},
	}
	call.Above = func(ctx context.Context) (bool, error) {
		defer func() { said.Audit = nil }()
		return v.grant(ctx, said)
	}
	r, err := v.account.Reserve(ctx, call)
	if err != nil {
		return nil, v.overdrawn(err)
	}
	v.asked = size
	return r, nil
}

// requested returns the record of a request that is about to be sent, with the hash of its items and the hash of its
// bytes.
func (v *invocation) requested(o outgoing) contract.Record {
	payload := map[string]any{
		"run_id": v.start.RunID, "session_id": v.start.SessionID, "step": o.call.Step, "call": v.calls,
		"provider": o.target.Provider, "model": o.target.Model, "hash": o.call.Hash, "body_sha256": nil,
		"body_bytes": o.body.Size,
	}
	if o.body.Size > 0 {
		payload["body_sha256"] = hex.EncodeToString(o.body.SHA256[:])
	}
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	return contract.NewRecord(requestLeft, v.agent.Path, payload)
}

// grant asks the caller of the run, which stores the call, and checks the budgets of the session and the operator.
func (v *invocation) grant(ctx context.Context, w contract.CallWanted) (waits bool, err error) {
	answer, err := v.sink.Grant(ctx, v.id, w)
	if err != nil {
		// The call may have been granted, but is not made.
		if gone := v.emit(contract.CallSettled{Call: w.Call}); gone != nil {
			return false, gone
		}
		return false, err
	}
	if answer.Err != nil {
		return answer.Waits, answer.Err
	}
	return false, nil
}

// settle reports the use of the last call, once per call. ofTurn means that the use is stored with the turn that
// follows.
func (v *invocation) settle(used contract.Amount, estimated, ofTurn bool) error {
	if v.held == nil || v.settled == v.calls {
		return nil
	}
	v.settled = v.calls
	return v.emit(contract.CallSettled{Call: v.calls, Amount: used, Estimated: estimated, OfTurn: ofTurn})
}

// overdrawn shows and records a call that a budget refused.
func (v *invocation) overdrawn(err error) error {
	f := fault.From(err)
	if f.Code != fault.BudgetExceeded {
		return err
	}
	if gone := v.showBudgets(true); gone != nil {
		return gone
	}
	payload := map[string]any{
		"run_id": v.start.RunID, "session_id": v.start.SessionID, "request_id": v.start.RequestID, "step": v.step,
		"reason": f.Msg,
	}
	for _, key := range []string{"scope", "agent_path", "resource", "limit", "spent", "reserved", "wanted"} {
		if value, ok := f.Details[key]; ok {
			payload[key] = value
		}
	}
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	if gone := v.emit(contract.NewRecord(contract.BudgetRefused, v.agent.Path, payload)); gone != nil {
		return gone
	}
	return f
}

// showBudgets emits the states of the agents' budgets that were not shown for a while; with all, every state.
func (v *invocation) showBudgets(all bool) error {
	for _, state := range v.account.States(all) {
		if err := v.emit(state); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the greatest possible use of a call, and whether its price is known.
func (v *invocation) wanted(size int64, output int, t llm.Target) (contract.Amount, bool) {
	in, out := v.estimate(size), int64(output)
	if out == 0 {
		out = boundedOutput
	}
	wanted := contract.Amount{Tokens: in + out, Calls: 1}
	if t.Driver == rehearsal {
		return wanted, true
	}
	// Providers charge more for cache writes than for plain input.
	plain, priced := v.deps.Prices.Cost(t, llm.Usage{Input: in, Output: out})
	cached, _ := v.deps.Prices.Cost(t, llm.Usage{CacheWrite: in, Output: out})
	wanted.NanoUSD = nano(max(plain.Total, cached.Total))
	return wanted, priced
}

// estimate returns the estimated input tokens of a request of size bytes: the counted tokens of the last answered
// request, and an estimate of the bytes added since.
func (v *invocation) estimate(size int64) int64 {
	if v.answered.tokens > 0 && size >= v.answered.bytes {
		return v.answered.tokens + tokensOf(size-v.answered.bytes)
	}
	return framing + tokensOf(size)
}

// tokensOf returns the estimated tokens of n bytes of text.
func tokensOf(n int64) int64 { return (n + bytesPerToken - 1) / bytesPerToken }

// used returns the use of an answered call, and remembers the request's count of tokens for estimates.
func (v *invocation) used(ans answer) contract.Amount {
	if in := ans.done.Usage.TotalInput(); in > 0 {
		v.answered = sized{bytes: v.asked, tokens: in}
	}
	return v.amount(ans.target, *ans.used)
}

// unfinished returns the charge for a call without a complete answer: the estimated use of an accepted call, and
// otherwise one call without tokens.
func (v *invocation) unfinished(ans answer) contract.Amount {
	if ans.used == nil {
		return contract.Amount{Calls: 1}
	}
	return v.amount(ans.target, *ans.used)
}

// amount returns a call's use in the units of budgets. A rehearsal is free, and so is a model without a known price.
func (v *invocation) amount(t llm.Target, u llm.Usage) contract.Amount {
	amount := contract.Amount{Tokens: llm.AddCounts(u.TotalInput(), u.Output), Calls: 1}
	if cost, known := v.deps.Prices.Cost(t, u); known && t.Driver != rehearsal {
		amount.NanoUSD = nano(cost.Total)
	}
	return amount
}

// nano returns US dollars as nanodollars, from 0 to 2^53.
func nano(usd float64) int64 {
	const most = 1 << 53
	if math.IsNaN(usd) || usd <= 0 {
		return 0
	}
	return int64(min(math.Ceil(usd*contract.NanoUSD), most))
}

// requestSize returns the bytes of a request that the model reads.
func requestSize(req *llm.Request) int64 {
	n := fixedSize(req)
	for _, m := range req.Messages {
		n += messageSize(m)
	}
	return n
}

// fixedSize is the part of [requestSize] outside the conversation.
func fixedSize(req *llm.Request) int64 {
	n := len(req.Note)
	for _, s := range req.System {
		n += len(s)
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return int64(n)
}

// messageSize is the part of a message in [requestSize].
func messageSize(m llm.Message) int64 {
	n := 0
	for _, b := range m.Blocks {
		n += b.Size()
		if b.Call != nil {
			n += len(b.Call.Name)
		}
	}
	return int64(n)
}
