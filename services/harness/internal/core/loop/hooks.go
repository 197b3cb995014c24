package loop

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/harness/internal/core/compact"
)

// Hook is an extension of compactions: an observer of every compaction, and the compactor of an agent that names it.
// A hook that is a [SessionStarter] also adds to the beginning of a session. Hooks run in this process.
type Hook interface {
	// Name is the name for compaction.delegate.plugin in an agent's configuration.
	Name() string
	// PreCompact is called before the strategy, once in a compaction. An observer may retain messages and inject a
	// text. A compactor chooses units. A nil answer changes nothing.
	PreCompact(ctx context.Context, call HookCall) (*HookAnswer, error)
	// PostCompact is called after a compaction that superseded messages, once.
	PostCompact(ctx context.Context, call HookCall) error
}

// SessionStarter is a hook that adds a text to the root agent's system prompt.
type SessionStarter interface {
	// OnSessionStart is called once in a session, in its first run, before the first request. An empty text adds
	// nothing.
	OnSessionStart(ctx context.Context, call HookCall) (inject string, err error)
}

// The roles of hooks.
const (
	RoleObserver  = "observer"
	RoleCompactor = "compactor"
)

// HookCall is the input of a hook.
type HookCall struct {
	// OperatorID, ProjectID, SessionID and AgentPath name the conversation. RequestID is unique to this call.
	OperatorID, ProjectID, SessionID, AgentPath, RequestID string
	// Role is [RoleObserver] or [RoleCompactor].
	Role string
	// DryRun is true if the compaction is only proposed. The hook must then have no side effects.
	DryRun bool
	// Units are the parts of the conversation that may be superseded, in order; in PostCompact the superseded ones. A
	// call and its results are one unit.
	Units []HookUnit
	// Suggested are the indices of the oldest units that make enough room, and Before is the text of earlier compactions,
	// which the summary replaces too. Only a compactor gets them.
	Suggested []int
	Before    string
}

// HookUnit is a part of a conversation that is superseded as a whole.
type HookUnit = compact.Unit

// HookAnswer is the answer of a hook.
type HookAnswer struct {
	// Retain are the indices of the units to keep.
	Retain []int
	// Inject is added to the text that replaces the superseded units.
	Inject string
	// Superseded are the indices of the units to supersede, and Summary is the text that replaces them. Only a
	// compactor sets them.
	Superseded []int
	Summary    string
}

// hookTimeout is the longest time of one call of a hook.
const hookTimeout = 30 * time.Second

// maxInjection is the most bytes of a hook's text for the system prompt.
const maxInjection = 64 << 10

// bounded calls a hook. It stops waiting after hookTimeout; the hook may go on in its goroutine.
func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() { // ends with the hook
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fault.New(fault.Internal, "The hook panicked.")
			}
			done <- r
		}()
		r.answer, r.err = call(ctx)
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// hookCall returns the input of a hook in a role.
func (v *invocation) hookCall(role string, dry bool, units []HookUnit) HookCall {
	return HookCall{
		OperatorID: v.start.OperatorID, ProjectID: v.start.ProjectID, SessionID: v.start.SessionID, AgentPath: v.agent.Path,
		RequestID: ident.New(), Role: role, DryRun: dry, Units: units,
	}
}

// askHook calls a hook before a compaction. A failure or a timeout is recorded, and the answer is then nil. The
// built-in compactor has only the time limits of its model calls.
func (v *invocation) askHook(ctx context.Context, h Hook, call HookCall) (*HookAnswer, contract.FiredHook, error) {
	began := time.Now()
	ask := func(ctx context.Context) (*HookAnswer, error) { return h.PreCompact(ctx, call) }
	var answer *HookAnswer
	var err error
	if _, ours := h.(*summarizer); ours {
		answer, err = ask(ctx)
	} else {
		answer, err = bounded(ctx, ask)
	}
	fired := contract.FiredHook{
		Name: h.Name(), Role: call.Role, DurationMS: time.Since(began).Milliseconds(),
		Result: "null",
	}
	switch {
	case err != nil:
		fired.Result, answer = "error", nil
		v.hookFailed(h, "pre_compact", err)
	case answer == nil:
	case call.Role == RoleCompactor:
		fired.Result = "compactor_result"
	case len(answer.Retain) > 0:
		fired.Result = "retain"
	case answer.Inject != "":
		fired.Result = "inject"
	}
	return answer, fired, err
}

// hookFailed records a hook that failed or took too long.
func (v *invocation) hookFailed(h Hook, hook string, err error) {
	kind := "plugin.hook.failed"
	if errors.Is(err, context.DeadlineExceeded) {
		kind = "plugin.hook.timeout"
	}
	// A failing sink has ended the run already.
	_ = v.emit(contract.NewRecord(kind, v.agent.Path, map[string]any{
		"plugin": h.Name(), "hook": hook, "session_id": v.start.SessionID, "run_id": v.start.RunID,
		"reason": valid(fault.From(err).Msg),
	}))
}

// observed asks the observers in order. It returns the units that they retain and the joined texts that they inject.
func (v *invocation) observed(ctx context.Context, c *contract.Compaction, dry bool) (retain []HookUnit,
	inject string,
) {
	if len(v.deps.Hooks) == 0 {
		return nil, ""
	}
	units := v.talk.Candidates(v.keeps)
	for _, h := range v.deps.Hooks {
		if v.agent.Compaction != nil && c.Strategy == contract.StrategyDelegate &&
			h.Name() == v.agent.Compaction.DelegatePlugin {
			continue // the compactor is asked later
		}
		answer, fired, _ := v.askHook(ctx, h, v.hookCall(RoleObserver, dry, units)) // a failure is recorded
		c.Fired = append(c.Fired, fired)
		if answer == nil {
			continue
		}
		for _, at := range answer.Retain {
			if at >= 0 && at < len(units) {
				retain = append(retain, units[at])
			}
		}
		if answer.Inject != "" {
			inject += "\n\n" + contract.Injection{Plugin: h.Name(), Text: valid(answer.Inject)}.Block()
		}
	}
	return retain, inject
}

// compacted reports a compaction that superseded messages to the hooks.
func (v *invocation) compacted(ctx context.Context, dry bool, plan *compact.Plan) {
	for _, h := range v.deps.Hooks {
		call := v.hookCall(RoleObserver, dry, []HookUnit{{Messages: plan.Messages()}})
		_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, h.PostCompact(ctx, call) })
		if err != nil {
			v.hookFailed(h, "post_compact", err)
		}
	}
}

// startSession adds the texts of hooks to the root agent's system prompt. The session's first run asks the hooks, in
// order. Later runs use the stored texts.
func (v *invocation) startSession(ctx context.Context) error {
	if v.parent != nil {
		return nil
	}
	texts := v.start.Injections
	if v.start.First && !v.mute {
		var err error
		if texts, err = v.askStarters(ctx); err != nil {
			return err
		}
	}
	for _, t := range texts {
		v.system = append(v.system, t.Block())
	}
	return nil
}

// askStarters asks the hooks for texts after the run is stored, and emits the texts for storage. A failing hook adds
// no text.
func (v *invocation) askStarters(ctx context.Context) (texts []contract.Injection, err error) {
	for _, h := range v.deps.Hooks {
		s, ok := h.(SessionStarter)
		if !ok {
			continue
		}
		if v.start.Hold != nil {
			if err := v.start.Hold(ctx); err != nil {
				return nil, err
			}
		}
		call := v.hookCall("", false, nil)
		text, err := bounded(ctx, func(ctx context.Context) (string, error) { return s.OnSessionStart(ctx, call) })
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			v.hookFailed(h, "on_session_start", err)
		case text != "":
			texts = append(texts, contract.Injection{Plugin: h.Name(), Text: valid(clip.Bytes(text, maxInjection))})
		}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	return texts, v.emit(contract.SessionStarted{Injections: texts})
}
