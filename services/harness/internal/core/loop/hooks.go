package loop

import (
	"context"
	"slices"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/harness/internal/core/compact"
)

// Hook is a part that others take in the compactions of an agent: an observer of each, and the compactor of an agent
// that names it.
type Hook interface {
	// Name is the name by which an agent's compaction.delegate.plugin finds it.
	Name() string
	// PreCompact is called before the strategy, once in a compaction. An observer may retain messages and inject a text;
	// a compactor chooses units. A nil answer changes no unit.
	PreCompact(ctx context.Context, call HookCall) (*HookAnswer, error)
	// PostCompact is called after it, once in a compaction that superseded messages.
	PostCompact(ctx context.Context, call HookCall) error
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
	bounded, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	answer, err := func() (a *HookAnswer, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fault.New(fault.Internal, "The hook panicked.")
			}
		}()
		return h.PreCompact(bounded, call)
	}()
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

// hookFailed records a hook that failed.
func (v *invocation) hookFailed(h Hook, hook string, err error) {
	// A sink that is gone ends the run elsewhere.
	_ = v.emit(contract.NewRecord("plugin.hook.failed", v.agent.Path, map[string]any{
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
			inject += "\n\n<plugin:" + h.Name() + ">\n" + valid(answer.Inject) + "\n</plugin:" + h.Name() + ">"
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
		bounded, cancel := context.WithTimeout(ctx, hookTimeout)
		err := h.PostCompact(bounded, v.hookCall(RoleObserver, dry, []HookUnit{{Messages: plan.Messages()}}))
		cancel()
		if err != nil {
			v.hookFailed(h, "post_compact", err)
		}
	}
}
