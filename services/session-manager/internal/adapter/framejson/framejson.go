// Package framejson renders the payloads of frames as JSON for clients: messages of kaged.api.v1 through package
// wirejson.
package framejson

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/optional"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/wire"
)

// Renderer implements [frames.Renderer].
type Renderer struct{}

// The bounds of the texts in a frame that must be shortened, in bytes of JSON. nameShare bounds each name and id
// that kaged did not choose, of tools, calls, models and agents.
const (
	inputShare  = frames.Limit / 4
	outputShare = frames.MaxText - inputShare
	errorShare  = 16 << 10
	nameShare   = 512
)

// Append implements [frames.Renderer].
func (Renderer) Append(dst []byte, p frames.Payload) ([]byte, error) {
	switch p := p.(type) {
	case frames.MessageDelta:
		return appendDelta(dst, p), nil
	case frames.MessageToolCall:
		return appendCall(dst, p)
	case frames.MessageToolResult:
		return appendResult(dst, p)
	case frames.ApprovalRequested:
		return appendApproval(dst, p)
	case frames.SubagentOutput:
		return appendSubagentOutput(dst, p), nil
	case frames.SubagentToolCall:
		return appendSubagentCall(dst, p)
	case frames.SubagentToolResult:
		return appendSubagentResult(dst, p)
	}
	return wirejson.Append(dst, message(p))
}

// appendDelta builds the JSON of the most frequent frames directly; a test compares it with wirejson.
func appendDelta(dst []byte, p frames.MessageDelta) []byte {
	dst = wirejson.AppendString(append(dst, `{"message_id":`...), p.MessageID)
	dst = wirejson.AppendString(append(dst, `,"delta":`...), p.Delta)
	if p.Thinking {
		return append(dst, `,"kind":"thinking"}`...)
	}
	return append(dst, `,"kind":"text"}`...)
}

func message(p frames.Payload) proto.Message {
	switch p := p.(type) {
	case frames.MessageStart:
		return &apiv1.MessageStart{
			MessageId: p.MessageID, RunId: p.RunID, Role: p.Role, Provider: name(p.Provider), Model: name(p.Model),
			Rehearsal: p.Rehearsal, StartedAt: p.StartedAt,
		}
	case frames.MessageToolOutput:
		return &apiv1.MessageToolOutput{
			MessageId: p.MessageID, ToolCallId: name(p.ToolCallID), Stream: name(p.Stream),
			Text: p.Text,
		}
	case frames.MessageEnd:
		return &apiv1.MessageEnd{
			MessageId: p.MessageID, EndedAt: p.EndedAt, StopReason: string(p.StopReason), Usage: wire.FrameUsage(p.Usage),
			Stats: wire.FrameStats(p.Stats), ErrorMessage: cut(p.ErrorMessage, errorShare),
		}
	case frames.MessageRetract:
		return &apiv1.MessageRetract{MessageId: p.MessageID, Step: int32(p.Step), Reason: cut(p.Reason, errorShare)}
	case frames.MessageSteer:
		shown := cut(p.Content, frames.MaxText)
		return &apiv1.MessageSteer{
			MessageId: p.MessageID, RunId: optional.NonZero(p.RunID), State: p.State, Content: shown,
			Truncated: shown != p.Content,
			AfterStep: int32(p.AfterStep), At: p.At,
		}
	case frames.RunStarted:
		return &apiv1.RunStarted{RunId: p.RunID, MessageId: p.MessageID}
	case frames.RunEnded:
		return &apiv1.RunEnded{
			RunId: p.RunID, Outcome: p.Outcome, Error: failure(p.Error), Steps: int32(p.Steps), TokensIn: p.TokensIn,
			TokensOut: p.TokensOut,
			CostUsd:   p.CostUSD,
		}
	case frames.RunCage:
		return &apiv1.RunCage{
			RunId: p.RunID, InvocationId: p.InvocationID, AgentPath: name(p.AgentPath), CageStatus: name(p.Status),
			Tier: name(p.Tier), BestEffort: few(p.BestEffort),
			Policy: cut(p.Policy, policyShare), Ended: name(p.Ended),
			Notes: few(p.Notes), Found: findings(p.Found),
		}
	case frames.SubagentStart, frames.SubagentEnd, frames.SubagentRetract:
		return subagent(p)
	case frames.Told:
		return told(p)
	case frames.CompactionFlagged:
		return &apiv1.CompactionFlagged{
			SessionId: p.SessionID, CompactionId: p.CompactionID, Flag: p.Flag, NotesLength: int32(p.Notes),
		}
	case frames.CompactionUndone:
		return &apiv1.CompactionUndone{
			SessionId: p.SessionID, CompactionId: p.CompactionID, AgentPath: name(p.AgentPath),
		}
	case frames.PromptHeld:
		return &apiv1.PromptHeld{RunId: p.RunID, Path: cut(p.Path, targetShare), AcceptedSha256: p.Accepted, Sha256: p.Found}
	case frames.ApprovalResolved:
		return &apiv1.ApprovalResolved{
			ApprovalId: p.ApprovalID, RunId: p.RunID, InvocationId: p.InvocationID, ToolCallId: name(p.ToolCallID),
			State:      p.State,
			ResolvedBy: optional.NonZero(name(p.ResolvedBy)), Comment: cut(p.Comment, errorShare), ResolvedAt: p.ResolvedAt,
			StandingApprovalId: p.StandingID,
		}
	case frames.IssueChanged:
		if p.Created {
			return &apiv1.IssueCreated{ProjectId: name(p.ProjectID), Number: p.Number}
		}
		return &apiv1.IssueUpdated{ProjectId: name(p.ProjectID), Number: p.Number}
	case frames.SessionState:
		return &apiv1.SessionStateChanged{State: p.State, BlockedReason: p.BlockedReason}
	}
	return nil
}

// subagent returns the frame of an invocation's start, end or retracted step.
func subagent(p frames.Payload) proto.Message {
	switch p := p.(type) {
	case frames.SubagentStart:
		return &apiv1.SubagentStart{
			InvocationId: p.InvocationID, ParentInvocationId: optional.NonZero(p.ParentID), RunId: p.RunID,
			ToolCallId: name(p.ToolCallID),
			Name:       name(p.Name), AgentPath: name(p.AgentPath), CageStatus: name(p.CageStatus), StartedAt: p.StartedAt,
		}
	case frames.SubagentEnd:
		return &apiv1.SubagentEnd{
			InvocationId: p.InvocationID, Exit: int32(p.Exit), Outcome: p.Outcome, Error: failure(p.Error),
			Steps: int32(p.Steps),
			Usage: wire.FrameUsage(&p.Usage), CostUsd: p.CostUSD, FilesChanged: fitting(p.FilesChanged), EndedAt: p.EndedAt,
		}
	case frames.SubagentRetract:
		return &apiv1.SubagentRetract{InvocationId: p.InvocationID, Step: int32(p.Step), Reason: cut(p.Reason, errorShare)}
	}
	return nil
}

// told returns the frame of an event that needs no conversion, nil for an event without a frame.
func told(p frames.Told) proto.Message {
	switch e := p.Event.(type) {
	case contract.Retry:
		return &apiv1.RunRetry{
			RunId: p.RunID, InvocationId: p.InvocationID, Error: failure(e.Err), Attempt: int32(e.Attempt), DelayMs: e.DelayMS,
			Provider: name(e.Provider),
			Model:    name(e.Model),
		}
	case contract.NetworkTried:
		return &apiv1.NetworkAttempted{
			RunId: p.RunID, InvocationId: p.InvocationID, AgentPath: name(e.Audit.Agent), At: e.Attempt.At,
			Target:  cut(e.Attempt.Target, targetShare),
			Allowed: e.Attempt.Allowed, Rule: cut(e.Attempt.Rule, targetShare), Count: e.Attempt.Count,
		}
	case contract.DebugEvent:
		return debug(p.RunID, e)
	case contract.Compaction:
		return compaction(p, e)
	case contract.BudgetState:
		return &apiv1.BudgetState{
			RunId: p.RunID, InvocationId: p.InvocationID, Scope: name(string(e.Scope)), AgentPath: name(e.Agent),
			Limit: wire.BudgetLimit(e.Limit, e.Walltime, e.AllowUnpriced),
			Spent: wire.BudgetSpent(e.Spent, e.Walltime, e.Worked), Reserved: wire.BudgetUse(e.Reserved),
		}
	}
	return nil
}

func appendCall(dst []byte, p frames.MessageToolCall) ([]byte, error) {
	m := &apiv1.MessageToolCall{MessageId: p.MessageID, Id: name(p.Call.ID), Name: name(p.Call.Name)}
	return appendInput(dst, m, &m.Input, &m.Truncated, p.Call.Input)
}

// appendInput appends a message with an input in one of its fields: as JSON if the frame fits, else as a shortened
// string, which sets truncated.
func appendInput(dst []byte, m proto.Message, field *[]byte, truncated *bool, input string) ([]byte, error) {
	start := len(dst)
	if len(input) <= frames.Limit {
		*field = wirejson.Raw(input)
		var err error
		if dst, err = wirejson.Append(dst, m); err != nil || len(dst)-start <= frames.Limit {
			return dst, err
		}
	}
	*field, *truncated = wirejson.AppendString(nil, cut(input, frames.MaxText)), true
	return wirejson.Append(dst[:start], m)
}

func appendResult(dst []byte, p frames.MessageToolResult) ([]byte, error) {
	start := len(dst)
	m := &apiv1.MessageToolResult{
		MessageId: p.MessageID, ToolCallId: name(p.Result.CallID), Name: name(p.Result.Name), IsError: p.Result.IsError,
		DurationMs: p.Result.DurationMS,
	}
	var err error
	if len(p.Input)+len(p.Result.Content) <= frames.Limit {
		m.Input, m.Output = wirejson.Raw(p.Input), p.Result.Content
		if dst, err = wirejson.Append(dst, m); err != nil || len(dst)-start <= frames.Limit {
			return dst, err
		}
	}
	m.Output, m.Truncated = cut(p.Result.Content, outputShare), true
	short := cut(p.Input, inputShare)
	if short == p.Input {
		m.Input = wirejson.Raw(p.Input)
		if dst, err = wirejson.Append(dst[:start], m); err != nil || len(dst)-start <= frames.Limit {
			return dst, err
		}
		// Numbers can become longer than in the input.
	}
	m.Input = wirejson.AppendString(nil, short)
	return wirejson.Append(dst[:start], m)
}

// An approval request is on the events channel, for which sockets have little room. Above approvalLimit it is
// shortened: the command keeps the most, then the preview of the change. The approval itself stays complete.
const (
	approvalLimit = 32 << 10
	commandShare  = 16 << 10
	previewShare  = 8 << 10
	reasonShare   = 256
	maxListed     = 12
)

// The bounds of a cage policy, and of the texts of a network attempt.
const (
	policyShare = 8 << 10
	targetShare = 1 << 10
)

func appendApproval(dst []byte, p frames.ApprovalRequested) ([]byte, error) {
	start := len(dst)
	m := &apiv1.ApprovalRequested{
		ApprovalId: p.ApprovalID, RunId: p.RunID, InvocationId: p.InvocationID, MessageId: p.MessageID,
		ToolCallId: name(p.ToolCallID), Subject: p.Subject.Proto(),
		RequestedAt: p.RequestedAt, ExpiresAt: p.ExpiresAt, Hash: p.Subject.Fingerprint(),
	}
	dst, err := wirejson.Append(dst, m)
	if err != nil || len(dst)-start <= approvalLimit {
		return dst, err
	}
	m.Truncated = true
	s := m.GetSubject()
	s.Tool, s.AgentPath = name(s.GetTool()), name(s.GetAgentPath())
	s.Command, s.Preview, s.Cwd = cut(s.GetCommand(), commandShare), cut(s.GetPreview(), previewShare), cut(s.GetCwd(),
		reasonShare)
	s.Reasons, s.Paths, s.Words = few(s.GetReasons()), few(s.GetPaths()), few(s.GetWords())
	return wirejson.Append(dst[:start], m)
}

// few returns the first maxListed texts of a list, each shortened.
func few(texts []string) []string {
	out := make([]string, min(len(texts), maxListed))
	for i := range out {
		out[i] = cut(texts[i], reasonShare)
	}
	return out
}

// maxFound bounds the findings about a cage in a frame; the audit record has all.
const maxFound = 20

func findings(found []contract.Finding) (list []*commonv1.CageFinding) {
	for _, f := range found[:min(len(found), maxFound)] {
		list = append(list, &commonv1.CageFinding{Kind: name(f.Kind), Path: cut(f.Path, targetShare), Text: cut(f.Text,
			targetShare)})
	}
	if more := len(found) - maxFound; more > 0 {
		list = append(list, &commonv1.CageFinding{
			Kind: "partial",
			Text: fmt.Sprintf("There are %d more; the audit record has them.", more),
		})
	}
	return list
}

// maxDetails bounds the details of a failure as protobuf; as JSON they may be six times as large.
const maxDetails = 32 << 10

// failure returns a failure for clients. It is shortened, because its details may quote a provider's text of any
// length.
func failure(e *fault.Error) *commonv1.Error {
	p := e.Proto()
	if p == nil {
		return nil
	}
	p.Message = cut(p.GetMessage(), errorShare)
	if proto.Size(p.GetDetails()) > maxDetails {
		p.Details = nil
	}
	return p
}

// name shortens a name or an id.
func name(s string) string { return cut(s, nameShare) }

// cut shortens s to budget bytes of JSON.
func cut(s string, budget int) string { return clip.JSON(s, budget) }
