package runs

import (
	"slices"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/core/approval"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/transcript"
)

// ending is how a run ends.
type ending struct {
	Finished
	steps []transcript.Step
	// asking are the requests for approval that nobody has answered.
	asking []record.Approval
	// provider and model answered first, "" if none did.
	provider, model string
	// resume says that a new run is to go on from there.
	resume bool
}

// outcomes are the states of runs that ended so.
var outcomes = map[Outcome]record.RunState{
	Completed: record.RunCompleted, Failed: record.RunFailed, Cancelled: record.RunCancelled,
}

// describe writes the end of a run into a change.
func (e *ending) describe(r *Run, c *record.Change) error {
	// Whoever cancels a run that is cut off at this moment does not want it to go on.
	e.resume = e.Error != nil && e.Error.Code == fault.Interrupted && r.reason() == nil && r.Resumes(r.spec.Inputs.Snapshot, r.spec.Tries)
	return e.write(r.Renderer, r.spec.Run, r.spec.Session, r.spec.RequestID, c)
}

func (e *ending) write(render frames.Renderer, run record.Run, s record.Session, requestID string, c *record.Change) error {
	state := outcomes[e.Outcome]
	usage, stats := e.measure()
	end := record.RunEnd{RunID: run.ID, State: state, StopReason: e.Stop, Error: e.Error, Steps: len(e.steps)}
	end.Totals = record.Totals{TokensIn: transcript.In(usage), TokensOut: usage.Output}
	if stats != nil && stats.Cost != nil {
		end.Totals.CostUSD = &stats.Cost.Total
	}
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
		message.Usage = transcript.UsageOf(usage)
	}
	if e.Error != nil {
		message.ErrorMessage = e.Error.Msg
	}
	return announce(render, c, run.ID,
		message,
		frames.RunEnded{
			RunID: run.ID, Outcome: string(state), Error: e.Error, Steps: end.Steps,
			TokensIn: end.Totals.TokensIn, TokensOut: end.Totals.TokensOut, CostUSD: end.Totals.CostUSD,
		},
		frames.SessionState{State: string(c.Session.State), BlockedReason: blocked})
}

// announce adds the frames of a change to it, named after what they are about.
func announce(render frames.Renderer, c *record.Change, about string, payloads ...frames.Payload) error {
	for _, p := range payloads {
		_, kind := p.Kind()
		id := about + "." + kind
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

// measure returns what the run used: as the harness sums it up, or as its steps say where it did not get to.
func (e *ending) measure() (llm.Usage, *transcript.Stats) {
	if e.Usage != (llm.Usage{}) || e.Stats != nil {
		return e.Usage, e.Stats
	}
	return transcript.Sum(e.steps)
}

func (e *ending) message(run record.Run, usage llm.Usage, stats *transcript.Stats, at int64) record.Message {
	why := fault.Interrupted
	if e.Outcome == Cancelled {
		why = fault.Cancelled
	}
	blocks := transcript.Compose(e.steps, e.Partial, e.Closing, why)
	m := record.Message{
		ID: run.MessageID, SessionID: run.SessionID, Role: record.Primary, AgentPath: string(record.Primary), RunID: run.ID,
		Content: transcript.Content(blocks), Blocks: blocks, CreatedAt: at,
		Metadata: &transcript.Metadata{Provider: e.provider, Model: e.model, StopReason: e.Stop, Stats: stats},
	}
	if n := len(e.steps); n > 0 {
		// What answered last is what the message ends with.
		m.Metadata.Provider, m.Metadata.Model = e.steps[n-1].Provider, e.steps[n-1].Model
	}
	if usage != (llm.Usage{}) {
		m.Metadata.Usage = transcript.UsageOf(usage)
	}
	if stats != nil && stats.Cost != nil {
		m.Cost = &stats.Cost.Total
	}
	if e.Error != nil {
		m.Metadata.ErrorMessage, m.Metadata.ErrorCode = e.Error.Msg, e.Error.Code.String()
		m.Metadata.ErrorStatus = e.ErrorStatus
	}
	return m
}

// blocked returns what the end says about the session's blocked_reason, nil for nothing.
func (e *ending) blocked() *string {
	reason := ""
	switch {
	case e.Outcome == Completed:
		return &reason
	case e.Error == nil:
		return nil
	case e.Error.Code == fault.ProviderUnreachable || e.Error.Code == fault.ContextOverflow:
		reason = e.Error.Code.String()
		return &reason
	}
	return nil
}

func (e *ending) audit(run record.Run, s record.Session, requestID string, usage llm.Usage, at int64) audit.Record {
	payload := map[string]any{
		"outcome": string(outcomes[e.Outcome]), "stop_reason": string(e.Stop), "steps": len(e.steps),
		"message_id": run.MessageID, "tokens_in": transcript.In(usage), "tokens_out": usage.Output,
	}
	if e.Error != nil {
		payload["error_code"], payload["error_message"] = e.Error.Code.String(), e.Error.Msg
	}
	return about(run, s, requestID, "run.ended", at, payload)
}

// cutOff records the calls whose results were not kept, because the run was cut off in between: whether they ran, and what
// they did, nobody knows, and the record must not be silent about it.
func (e *ending) cutOff(run record.Run, s record.Session, requestID string, at int64) []audit.Record {
	if e.Outcome == Completed {
		return nil
	}
	var records []audit.Record
	for _, call := range transcript.Open(e.steps) {
		if slices.ContainsFunc(e.asking, func(a record.Approval) bool { return a.CallID == call.ID }) {
			continue // it waited for an operator, so it did not run
		}
		records = append(records, about(run, s, requestID, "tool.interrupted", at, map[string]any{
			"tool_name": call.Name, "tool_call_id": call.ID, "step": len(e.steps), "effects": "unknown",
		}))
	}
	return records
}

// about returns a record about a run.
func about(run record.Run, s record.Session, requestID, event string, at int64, payload map[string]any) audit.Record {
	r := audit.Record{
		TS: at, EventType: event, UserID: s.Owner, RequestID: requestID, ProjectID: s.ProjectID, SessionID: s.ID,
		RunID: run.ID, AgentPath: string(record.Primary), Payload: payload,
	}
	return r.Clean()
}

// Interrupted describes the end of a run whose process died: its stored steps are kept, it has failed as interrupted, or was
// cancelled where an operator had wanted that, and the session is in the state next. With resume a new run is to go on from
// there, unless it was cancelled.
func Interrupted(
	render frames.Renderer, s record.Session, run record.Run, steps []transcript.Step, next record.State, resume bool,
) (record.Change, error) {
	e := ending{steps: steps, asking: run.Asking, resume: resume, Finished: Finished{
		Outcome: Failed, Stop: llm.StopError,
		Error: fault.New(fault.Interrupted, "The run was cut off when kaged stopped; its completed steps are kept."),
	}}
	if run.CancelRequestedAt > 0 {
		e.Finished, e.resume = Finished{Outcome: Cancelled, Stop: llm.StopAborted}, false
	}
	c := record.Change{At: now(), Session: record.Patch{State: next}}
	err := e.write(render, run, s, "", &c)
	return c, err
}

// Announce adds the frames that say that a run has begun, and which prompts it does not take from their files, to the change that
// begins it.
func Announce(render frames.Renderer, c *record.Change, run record.Run, held []projects.HeldPrompt, blockedReason string) error {
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
