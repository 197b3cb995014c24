package runs

import (
	"slices"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// ending is the end of a run.
type ending struct {
	contract.Finished
	steps []transcript.Step
	// asking are the open approvals.
	asking []record.Approval
	// open are the invocations that have not ended; answers are the ended ones that answer calls of the root's last
	// step; used is the use of all ended ones.
	open    []*agent
	answers []record.Invocation
	used    record.Below
	// provider and model are those of the first answer; they may be "".
	provider, model string
	// resume says that a new run is to continue from here.
	resume bool
}

// outcomes are the states of runs by outcome.
var outcomes = map[contract.Outcome]record.RunState{
	contract.Completed: record.RunCompleted, contract.Failed: record.RunFailed, contract.Cancelled: record.RunCancelled,
}

// describe adds the end of a run to a change.
func (e *ending) describe(r *Run, c *record.Change) error {
	// A run that was cancelled before it was cut off must not be resumed.
	e.resume = e.Err != nil && e.Err.Code == fault.Interrupted && r.reason() == nil &&
		r.Resumes(r.spec.Inputs.Snapshot, r.spec.Tries)
	return e.write(r.Renderer, r.spec.Run, r.spec.Session, r.spec.RequestID, c)
}

func (e *ending) write(
	render frames.Renderer, run record.Run, s record.Session, requestID string, c *record.Change,
) error {
	state := outcomes[e.Outcome]
	if err := e.endAgents(render, s, requestID, c); err != nil {
		return err
	}
	usage, stats := e.measure()
	end := record.RunEnd{RunID: run.ID, State: state, StopReason: e.Stop, Error: e.Err, Steps: len(e.steps)}
	end.Totals = record.Totals{TokensIn: transcript.In(usage), TokensOut: usage.Output}
	if stats != nil && stats.Cost != nil {
		end.Totals.CostUSD = &stats.Cost.Total
	}
	end.Totals = e.used.On(end.Totals)
	c.EndRun = &end
	c.Messages = append(c.Messages, e.message(run, usage, stats, c.At))
	if c.Session.State == "" {
		c.Session.State = record.Idle
	}
	c.Session.BlockedReason = e.blocked()
	if e.resume {
		c.Session.ResumeRun = &run.ID
	}
	if err := closing(render, c, s, requestID, e.asking); err != nil {
		return err
	}
	c.Audit = append(c.Audit, e.cutOff(run, s, requestID, c.At)...)
	c.Audit = append(c.Audit, e.audit(run, s, requestID, usage, c.At))
	blocked := s.BlockedReason
	if c.Session.BlockedReason != nil {
		blocked = *c.Session.BlockedReason
	}
	if blocked == "" && e.resume && !s.CancelRequested {
		blocked = record.ResumePending
	}
	message := frames.MessageEnd{MessageID: run.MessageID, EndedAt: c.At, StopReason: e.Stop, Stats: stats}
	if usage != (llm.Usage{}) {
		message.Usage = &usage
	}
	if e.Err != nil {
		message.ErrorMessage = e.Err.Msg
	}
	return announce(render, c, run.ID,
		message,
		frames.RunEnded{
			RunID: run.ID, Outcome: string(state), Error: e.Err, Steps: end.Steps,
			TokensIn: end.Totals.TokensIn, TokensOut: end.Totals.TokensOut, CostUSD: end.Totals.CostUSD,
		},
		frames.SessionState{State: string(c.Session.State), BlockedReason: blocked})
}

// announce adds frames to a change, with ids made from their subject and type.
func announce(render frames.Renderer, c *record.Change, about string, payloads ...frames.Payload) error {
	for _, p := range payloads {
		id := about + "." + p.Kind().Name
		if s, ok := p.(frames.SessionState); ok {
			id += "." + s.State
		}
		if h, ok := p.(frames.PromptHeld); ok {
			id += "." + approval.SHA256(h.Path)
		}
		d, err := frames.RenderDurable(render, id, p)
		if err != nil {
			return err
		}
		c.Outbox = append(c.Outbox, d)
	}
	return nil
}

// measure returns the run's use: the harness's sum, or the sum of the run's steps if the harness sent none.
func (e *ending) measure() (llm.Usage, *llm.Stats) {
	if e.Usage != (llm.Usage{}) || e.Stats != nil {
		return e.Usage, e.Stats
	}
	return transcript.Sum(e.steps)
}

func (e *ending) message(run record.Run, usage llm.Usage, stats *llm.Stats, at int64) record.Message {
	why := fault.Interrupted
	if e.Outcome == contract.Cancelled {
		why = fault.Cancelled
	}
	blocks := transcript.Compose(e.steps, e.Partial, e.ClosingText, why)
	m := record.Message{
		ID: run.MessageID, SessionID: run.SessionID, Role: record.Primary, AgentPath: string(record.Primary), RunID: run.ID,
		Content: transcript.Content(blocks), Blocks: blocks, CreatedAt: at,
		Metadata: &transcript.Metadata{Provider: e.provider, Model: e.model, StopReason: e.Stop, Stats: stats},
	}
	if n := len(e.steps); n > 0 {
		// The message names the model of its last step.
		m.Metadata.Provider, m.Metadata.Model = e.steps[n-1].Provider, e.steps[n-1].Model
	}
	if usage != (llm.Usage{}) {
		m.Metadata.Usage = &usage
	}
	if stats != nil && stats.Cost != nil {
		m.Cost = &stats.Cost.Total
	}
	if e.Err != nil {
		m.Metadata.ErrorMessage, m.Metadata.ErrorCode = e.Err.Msg, e.Err.Code.String()
		m.Metadata.ErrorStatus = e.Status()
	}
	return m
}

// blocked returns the session's new blocked_reason, nil for no change.
func (e *ending) blocked() *string {
	reason := ""
	switch {
	case e.Outcome == contract.Completed:
		return &reason
	case e.Err == nil:
		return nil
	case e.Err.Code == fault.ProviderUnreachable || e.Err.Code == fault.ContextOverflow:
		reason = e.Err.Code.String()
		return &reason
	}
	return nil
}

func (e *ending) audit(run record.Run, s record.Session, requestID string, usage llm.Usage, at int64) audit.Record {
	payload := map[string]any{
		"outcome": string(outcomes[e.Outcome]), "stop_reason": string(e.Stop), "steps": len(e.steps),
		"message_id": run.MessageID, "tokens_in": transcript.In(usage), "tokens_out": usage.Output,
	}
	if e.Err != nil {
		payload["error_code"], payload["error_message"] = e.Err.Code.String(), e.Err.Msg
	}
	return about(run, s, requestID, "run.ended", at, payload)
}

// cutOff returns an audit record for each call without a stored result, because its effects are unknown.
func (e *ending) cutOff(run record.Run, s record.Session, requestID string, at int64) []audit.Record {
	if e.Outcome == contract.Completed {
		return nil
	}
	records := e.unfinished(run, s, requestID, at, "", string(record.Primary), e.steps)
	for _, a := range e.open {
		records = append(records, e.unfinished(run, s, requestID, at, a.ID, a.AgentPath, a.steps)...)
	}
	return records
}

// unfinished returns the audit records of the open calls of an agent.
func (e *ending) unfinished(run record.Run, s record.Session, requestID string, at int64, invocation, path string,
	steps []transcript.Step,
) []audit.Record {
	var records []audit.Record
	for _, call := range transcript.Open(steps) {
		switch {
		case slices.ContainsFunc(e.asking, func(a record.Approval) bool {
			return a.CallID == call.ID &&
				a.InvocationID == invocation
		}):
			continue // it waited for an operator, so it did not run
		case slices.ContainsFunc(e.open, func(a *agent) bool { return a.CallID == call.ID && a.ParentID == invocation }):
			continue // it is an agent, which has records of its own
		}
		payload := map[string]any{"tool_name": call.Name, "tool_call_id": call.ID, "step": len(steps), "effects": "unknown"}
		if invocation != "" {
			payload["invocation_id"] = invocation
		}
		r := about(run, s, requestID, "tool.interrupted", at, payload)
		r.AgentPath = path
		records = append(records, r)
	}
	return records
}

// about returns an audit record about a run.
func about(run record.Run, s record.Session, requestID, event string, at int64, payload map[string]any) audit.Record {
	return s.Audited(audit.Record{
		TS: at, EventType: event, RequestID: requestID, RunID: run.ID, AgentPath: string(record.Primary), Payload: payload,
	})
}

// Interrupted returns the change that ends a run after its process died. The run keeps its stored steps and fails
// as interrupted, or is cancelled if an operator had cancelled it; the session gets the state next. With resume a
// new run is to continue it, unless it was cancelled.
func Interrupted(
	render frames.Renderer, s record.Session, run record.Run, steps []transcript.Step, next record.State, resume bool,
) (record.Change, error) {
	e := ending{steps: steps, asking: run.Asking, used: run.Below, resume: resume, Finished: contract.Finished{
		Outcome: contract.Failed, Stop: llm.StopError,
		Err: fault.New(fault.Interrupted, "The run was cut off when kaged stopped; its completed steps are kept."),
	}}
	for _, i := range run.Cut {
		if i.State.Over() {
			e.answers = append(e.answers, i)
		} else {
			e.open = append(e.open, &agent{Invocation: i, steps: i.Kept})
		}
	}
	if run.CancelRequestedAt > 0 {
		e.Finished, e.resume = contract.Finished{Outcome: contract.Cancelled, Stop: llm.StopAborted}, false
	}
	c := record.Change{At: now(), Session: record.Patch{State: next}}
	err := e.write(render, run, s, "", &c)
	return c, err
}

// Announce adds the frames about the beginning of a run, and about prompts whose accepted text it uses instead of
// their file, to the change that begins the run.
func Announce(
	render frames.Renderer, c *record.Change, run record.Run, held []projects.HeldPrompt, blockedReason string,
) error {
	say := []frames.Payload{
		frames.RunStarted{RunID: run.ID, MessageID: run.TriggerMessageID},
		frames.SessionState{State: string(record.Running), BlockedReason: blockedReason},
	}
	for _, h := range held {
		say = append(say, frames.PromptHeld{RunID: run.ID, Path: h.Path, Accepted: h.Accepted, Found: h.Found})
	}
	return announce(render, c, run.ID, say...)
}

func now() int64 { return time.Now().UnixMilli() }
