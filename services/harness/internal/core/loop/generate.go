package loop

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/retry"
)

// generate makes the model call of a step: it sends the request to the targets of the agent's route until one
// accepts it.
func (v *invocation) generate(ctx context.Context) (answer, error) {
	route, err := v.route(v.agent.Model, v.parent == nil)
	if err != nil {
		return answer{}, err
	}
	if err := v.makeRoom(ctx, route); err != nil {
		return answer{}, err
	}
	ans, err := v.call(ctx, route, false)
	if err == nil || fault.CodeOf(err) != fault.ContextOverflow || ctx.Err() != nil {
		return ans, err
	}
	shorter, gone := v.makeRoomAfter(ctx, route)
	if gone != nil || !shorter {
		return ans, cmp.Or(gone, err)
	}
	if ans.accepted {
		if err := v.takeBack(ans, fault.From(err)); err != nil {
			return answer{}, err
		}
	}
	return v.call(ctx, route, true)
}

// call sends the current conversation. again marks the second request of a step.
func (v *invocation) call(ctx context.Context, route contract.Route, again bool) (answer, error) {
	a := attempts{run: v, again: again, maxOutput: v.outputBound(route), candidates: v.candidates(route)}
	ans, err := a.make(ctx)
	if err == nil {
		v.room.answered(ans.done.Usage.TotalInput())
		v.learn(route)
	}
	return ans, err
}

// candidate is a target with its driver, or with the reason why it is unusable.
type candidate struct {
	llm.Target
	driver   llm.Driver
	unusable *fault.Error
}

// key names the target within a run.
func (c candidate) key() string { return targetKey(c.Target) }

func targetKey(t llm.Target) string { return t.Provider + ":" + t.Model }

func (v *invocation) candidates(route contract.Route) []candidate {
	out := make([]candidate, len(route.Targets))
	for i, t := range route.Targets {
		out[i] = candidate{Target: t.Target, unusable: t.Unusable}
		if t.Unusable == nil {
			driver, err := v.deps.Models.Open(t.Target)
			out[i].driver, out[i].unusable = driver, fault.From(err)
		}
	}
	return out
}

// attempts makes one model call by trying targets in order.
type attempts struct {
	run        *invocation
	again      bool // see [Call.Again]
	maxOutput  int
	candidates []candidate
	call       *Call // for the last target asked; nil before
	tried      int
	retracted  bool           // an answer broke off and was retracted
	errs       []*fault.Error // errors of the targets asked
}

// make asks the candidates in order until one answers or fails with an error that another attempt cannot mend.
func (a *attempts) make(ctx context.Context) (answer, error) {
	if err := a.passLimited(); err != nil {
		return answer{}, err
	}
	last := a.lastUsable()
	if last < 0 {
		return answer{}, a.candidates[0].unusable
	}
	for i, c := range a.candidates[:last] {
		if c.unusable != nil {
			if err := a.skip(c, a.candidates[i+1]); err != nil {
				return answer{}, err
			}
			continue
		}
		ans, err := a.ask(ctx, c, 1)
		if err == nil || ans.accepted || ctx.Err() != nil || !retryable(err) {
			return ans, err
		}
		if err := a.run.emit(announced(fault.From(err), a.tried, 0, a.candidates[i+1])); err != nil {
			return answer{}, err
		}
	}
	ans, err := a.ask(ctx, a.candidates[last], a.run.deps.Limits.Tries)
	if err == nil || ans.accepted || ctx.Err() != nil || !retryable(err) {
		return ans, err
	}
	return ans, a.exhausted()
}

func (a *attempts) lastUsable() int {
	for i, c := range slices.Backward(a.candidates) {
		if c.unusable == nil {
			return i
		}
	}
	return -1
}

// skip announces, once per run, that a target cannot be used.
func (a *attempts) skip(c, next candidate) error {
	if !a.run.skips(c.key()) {
		return nil
	}
	return a.run.emit(announced(c.unusable, a.tried+1, 0, next))
}

// ask makes up to tries attempts at one target. An answer that breaks off grants at least one more.
func (a *attempts) ask(ctx context.Context, c candidate, tries int) (answer, error) {
	limits := a.run.deps.Limits
	delays := retry.Pauses{First: limits.FirstDelay, Last: limits.LongestDelay}
	if f, err := a.awaitReset(ctx, c); err != nil {
		return answer{}, err
	} else if f != nil {
		return answer{}, f
	}
	for try := 1; ; try++ {
		ans, err := a.once(ctx, c)
		if err == nil {
			return ans, nil
		}
		a.tried++
		if ctx.Err() != nil || !retryable(err) {
			return ans, err
		}
		f := fault.From(err)
		wait, patient := waitFor(f, delays.After(try-1), limits.LongestDelay)
		if ans.accepted {
			if a.retracted || !patient {
				return ans, err
			}
			if err := a.retract(ans, f); err != nil {
				return answer{}, err
			}
			tries = max(tries, try+1)
		}
		a.run.resets.note(c.key(), f)
		a.errs = append(a.errs, f)
		if try == tries || !patient {
			return answer{}, err
		}
		if err := a.pause(ctx, f, a.tried, wait, c); err != nil {
			return answer{}, err
		}
	}
}

// prepare runs the conversation through the pipeline for a target, unless the last attempt was at the same target. It
// reports whether it did.
func (a *attempts) prepare(ctx context.Context, c candidate) (bool, error) {
	if a.call != nil && targetKey(a.call.Target) == c.key() {
		return false, nil
	}
	v := a.run
	call := &Call{
		Step: v.step, Again: a.again || a.call != nil, Alias: v.agent.Model, Target: c.Target, driver: c.driver,
		Request: v.request(),
	}
	call.Request.MaxOutputTokens = a.maxOutput
	err := v.pipeline.input(ctx, call)
	a.call = call
	v.sealed.take(&call.Request)
	return true, err
}

// once makes one attempt. It refuses to repeat a request that differs from the pipeline's result.
func (a *attempts) once(ctx context.Context, c candidate) (answer, error) {
	fresh, err := a.prepare(ctx, c)
	if err != nil {
		return answer{}, err
	}
	req := a.call.Request
	if !fresh && !a.run.sealed.matches(&req) {
		return answer{}, fault.New(fault.Internal, "The model request changed after it was recorded, so it was not sent.")
	}
	v := a.run
	req.Model = c.Model
	v.kept, v.held = nil, nil
	var unsent error
	req.Hold = func(ctx context.Context, body llm.Body) error {
		v.held, unsent = v.reserve(ctx, outgoing{a.call, &req, c.Target, body})
		if unsent == nil && v.start.Hold != nil {
			unsent = v.start.Hold(ctx)
		}
		return unsent
	}
	ans, err := v.watched(ctx, c.driver, req, c.Target)
	switch {
	case unsent != nil:
		err = unsent
	case err == nil && v.held == nil:
		err = fault.New(fault.Internal, "The model request was sent before it was recorded.")
	}
	if err != nil && v.held != nil {
		used := v.unfinished(ans)
		if gone := v.settle(used, ans.accepted, false); gone != nil {
			err = gone
		}
		v.held.Settle(used)
	}
	return ans, err
}

// retryable reports whether another attempt may succeed. A request that a provider refuses for its content or its
// length is not retried elsewhere: an operator has to see the refusal.
func retryable(err error) bool {
	switch fault.CodeOf(err) {
	case fault.ProviderUnreachable, fault.ProviderRateLimited, fault.ProviderBadResponse:
		return true
	}
	return false
}

// waitFor returns the delay before the next attempt at the same target, false if the provider wishes for more than
// longest.
func waitFor(f *fault.Error, delay, longest time.Duration) (time.Duration, bool) {
	wish := time.Duration(milliseconds(f.Details["retry_after_ms"]) * float64(time.Millisecond))
	if wish > longest {
		return 0, false
	}
	return max(delay, wish), true
}

func milliseconds(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// announced returns the event before an attempt at next.
func announced(f *fault.Error, attempt int, wait time.Duration, next candidate) contract.Retry {
	return contract.Retry{
		Err: f, Attempt: attempt, DelayMS: wait.Milliseconds(), Provider: next.Provider, Model: next.Model,
	}
}

// pause announces another attempt at the same target and waits for its time.
func (a *attempts) pause(ctx context.Context, f *fault.Error, attempt int, wait time.Duration, c candidate) error {
	if err := a.run.emit(announced(f, attempt, wait, c)); err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-a.run.deps.Stopping:
		return errHandOver
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exhausted returns the failure of a call that no target accepted.
func (a *attempts) exhausted() error {
	last := a.errs[len(a.errs)-1]
	if !slices.ContainsFunc(a.errs, func(f *fault.Error) bool { return f.Code != fault.ProviderRateLimited }) {
		return reworded(last, "All providers rate-limited. Try again later.")
	}
	if _, answered := last.Details["status"]; last.Code == fault.ProviderUnreachable && !answered {
		return reworded(last, "Provider unreachable.")
	}
	return last
}

// reworded returns f with the message msg; the old message becomes a detail.
func reworded(f *fault.Error, msg string) *fault.Error {
	out := f.With("reason", f.Msg)
	out.Msg = msg
	return out
}

// explain returns err as the end of a run shows it. A provider's error is prefixed with "Agent generation failed".
func explain(err error) *fault.Error {
	f := fault.From(err)
	switch f.Code {
	case fault.ProviderUnreachable, fault.ProviderRateLimited, fault.ProviderBadResponse, fault.ProviderRejected,
		fault.ProviderAuthFailed, fault.ContextOverflow, fault.ScriptMismatch:
		if _, done := f.Details["reason"]; !done {
			return reworded(f, "Agent generation failed: "+strings.TrimRight(f.Msg, ".")+".")
		}
	}
	return f
}

// detail returns the provider's details of a refusal, or the reason of a cancelled run; nil without details.
func detail(f *fault.Error) map[string]any {
	out := map[string]any{}
	for _, key := range []string{"provider", "status", "retry_after_ms", "reason"} {
		if v, ok := f.Details[key]; ok && v != "" {
			out[key] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
