package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/harness/internal/core/compact"
)

// Hook is a part that others take in the compactions of an agent: an observer of each, and the compactor of an agent
// that names it. One that is a [SessionStarter] also takes part in the beginning of a session. Hooks run in this
// process; the plugin host will stand behind the same interface.
type Hook interface {
	// Name is the name by which an agent's compaction.delegate.plugin finds it.
	Name() string
	// PreCompact is called before the strategy, once in a compaction. An observer may retain messages and inject a text;
	// a compactor chooses units. A nil answer changes no unit.
	PreCompact(ctx context.Context, call HookCall) (*HookAnswer, error)
	// PostCompact is called after it, once in a compaction that superseded messages.
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
	// OperatorID, ProjectID, SessionID and AgentPath name the conversation. RequestID is of this call alone.
	OperatorID, ProjectID, SessionID, AgentPath, RequestID string
	// Role is [RoleObserver] or [RoleCompactor].
	Role string
	// DryRun says that the compaction is only proposed; a hook then leaves no traces.
	DryRun bool
	// Units are the parts of the conversation that may give way, in order: after the compaction those that did. A call and
	// its results are one.
	Units []HookUnit
}

// HookUnit is a part of a conversation that gives way whole.
type HookUnit = compact.Unit

// HookAnswer is the answer of a hook.
type HookAnswer struct {
	// Retain are places in the units that stay.
	Retain []int
	// Inject is added to the text in the place of the dropped units.
	Inject string
	// Superseded are the places of the units that give way, and Summary the text in their place; of a compactor alone.
	Superseded []int
	Summary    string
}

// hookTimeout bounds one call of a hook.
const hookTimeout = 30 * time.Second

// maxInjection bounds a text for the system prompt in bytes.
const maxInjection = 64 << 10

// bounded calls a hook, and stops waiting for it at the timeout.
func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() { // it ends with the hook
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

// hookCall returns a call for a role.
func (v *invocation) hookCall(role string, dry bool, units []HookUnit) HookCall {
	return HookCall{
		OperatorID: v.start.OperatorID, ProjectID: v.start.ProjectID, SessionID: v.start.SessionID, AgentPath: v.agent.Path,
		RequestID: ident.New(), Role: role, DryRun: dry, Units: units,
	}
}

// askHook calls a hook before a compaction. A hook that fails or takes too long is recorded and has no say.
func (v *invocation) askHook(ctx context.Context, h Hook, call HookCall) (*HookAnswer, contract.FiredHook) {
	began := time.Now()
	answer, err := bounded(ctx, func(ctx context.Context) (*HookAnswer, error) { return h.PreCompact(ctx, call) })
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
	return answer, fired
}

// hookFailed records a hook that failed or took too long.
func (v *invocation) hookFailed(h Hook, hook string, err error) {
	kind := "plugin.hook.failed"
	if errors.Is(err, context.DeadlineExceeded) {
		kind = "plugin.hook.timeout"
	}
	// A sink that is gone ends the run elsewhere.
	_ = v.emit(contract.NewRecord(kind, v.agent.Path, map[string]any{
		"plugin": h.Name(), "hook": hook, "session_id": v.start.SessionID, "run_id": v.start.RunID,
		"reason": valid(fault.From(err).Msg),
	}))
}

// observed asks the observers, in their order, and returns the units that they retain and the texts that they inject.
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
			continue // it is the compactor
		}
		answer, fired := v.askHook(ctx, h, v.hookCall(RoleObserver, dry, units))
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

// delegated asks the agent's compactor. It fails with the reason for a fallback to drop.
func (v *invocation) delegated(ctx context.Context, c *contract.Compaction, dry bool, ledger string) (*compact.Plan,
	string, error,
) {
	name := ""
	if v.agent.Compaction != nil {
		name = v.agent.Compaction.DelegatePlugin
	}
	at := slices.IndexFunc(v.deps.Hooks, func(h Hook) bool { return h.Name() == name })
	if name == "" || at < 0 {
		return nil, "", fault.New(fault.InvalidParams, "There is no plugin %q that compacts.", name)
	}
	units := v.talk.Candidates(v.keeps)
	answer, fired := v.askHook(ctx, v.deps.Hooks[at], v.hookCall(RoleCompactor, dry, units))
	c.Fired = append(c.Fired, fired)
	if answer == nil {
		return nil, "", fault.New(fault.ProviderBadResponse, "The compactor %s gave no result.", name)
	}
	plan, ok := v.talk.PlanOf(answer.Superseded, v.keeps, ledger)
	switch {
	case !ok:
		return nil, "", fault.New(fault.ProviderBadResponse,
			"The compactor %s supersedes what is not among the parts that may give way.", name)
	case plan.Empty() || answer.Summary == "":
		return nil, "", fault.New(fault.ProviderBadResponse, "The compactor %s supersedes nothing, or leaves no text.", name)
	}
	return plan, plan.Summarized(valid(answer.Summary)), nil
}

// compacted tells the hooks of a compaction that superseded messages.
func (v *invocation) compacted(ctx context.Context, dry bool, plan *compact.Plan) {
	for _, h := range v.deps.Hooks {
		call := v.hookCall(RoleObserver, dry, []HookUnit{{Messages: plan.Messages()}})
		_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, h.PostCompact(ctx, call) })
		if err != nil {
			v.hookFailed(h, "post_compact", err)
		}
	}
}

// startSession adds the texts of hooks to the root agent's system prompt: in the session's first run those that the
// hooks answer with now, in their order, later the ones that are kept.
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

// askStarters asks the hooks for texts once the run is stored, and has the texts stored. A hook that fails adds none.
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
