package server

import (
	"math"
	"slices"
	"time"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/structs"
	"kaged.dev/services/harness/internal/core"
	"kaged.dev/services/harness/internal/core/loop"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

func filesFromProto(files []*harnessv1.SourceFile) []dsl.File {
	out := make([]dsl.File, len(files))
	for i, f := range files {
		out[i] = dsl.File{Path: f.GetPath(), Present: f.GetPresent(), Content: f.GetContent(), Reason: f.GetReason()}
	}
	return out
}

func switchesFromProto(switches []*harnessv1.ToolSwitch) []core.ToolSwitch {
	out := make([]core.ToolSwitch, len(switches))
	for i, s := range switches {
		out[i] = core.ToolSwitch{Pattern: s.GetPattern(), Enabled: s.GetEnabled()}
	}
	return out
}

func diagnosticsToProto(diagnostics []dsl.Diagnostic) []*harnessv1.Diagnostic {
	out := make([]*harnessv1.Diagnostic, len(diagnostics))
	for i, d := range diagnostics {
		severity := harnessv1.Severity_SEVERITY_ERROR
		if d.Severity == dsl.Warning {
			severity = harnessv1.Severity_SEVERITY_WARNING
		}
		out[i] = &harnessv1.Diagnostic{
			Kind: string(d.Kind), Message: d.Message, Path: d.Path, File: d.Pos.File,
			Line: int32(d.Pos.Line), Column: int32(d.Pos.Column), Severity: severity,
		}
	}
	return out
}

// referencesToProto converts references; present overrides what is known of them where nothing is.
func referencesToProto(references []dsl.Reference, present bool) []*harnessv1.Reference {
	out := make([]*harnessv1.Reference, len(references))
	for i, r := range references {
		out[i] = &harnessv1.Reference{Name: r.Name, UsedBy: r.UsedBy, Present: r.Present || present}
	}
	return out
}

func projectToProto(p *core.Project) *harnessv1.CompiledProject {
	if p == nil {
		return nil
	}
	return &harnessv1.CompiledProject{
		Project: p.Slug, Description: p.Description, Version: int32(p.Version), Root: agentToProto(p.Root), ToolsOff: p.ToolsOff,
	}
}

func agentToProto(a *core.Agent) *harnessv1.AgentNode {
	if a == nil {
		return nil
	}
	n := &harnessv1.AgentNode{
		Key: a.Key, Path: a.Path, Model: a.Model, PromptPath: a.PromptPath, Description: a.Description,
		MaxSteps: optional(a.MaxSteps), MaxOutputTokens: optional(a.MaxOutputTokens), Cage: a.Cage.Proto(), Tools: a.Tools,
		OnCrash: harnessv1.CrashPolicy_CRASH_POLICY_STOP, IncludeToolResultsInContext: a.IncludeToolResults, ToolAliases: a.Aliases, Writes: &a.Writes,
	}
	if a.ResumeOnCrash {
		n.OnCrash = harnessv1.CrashPolicy_CRASH_POLICY_RESUME
	}
	for _, child := range a.Children {
		n.Children = append(n.Children, agentToProto(child))
	}
	return n
}

func agentFromProto(n *harnessv1.AgentNode) *core.Agent {
	if n == nil {
		return nil
	}
	a := &core.Agent{
		Key: n.GetKey(), Path: n.GetPath(), Model: n.GetModel(), PromptPath: n.GetPromptPath(), Description: n.GetDescription(),
		MaxSteps: int(n.GetMaxSteps()), MaxOutputTokens: int(n.GetMaxOutputTokens()), Cage: dsl.CageFromProto(n.GetCage()),
		Tools: n.GetTools(), Aliases: n.GetToolAliases(), IncludeToolResults: n.GetIncludeToolResultsInContext(),
		ResumeOnCrash: n.GetOnCrash() == harnessv1.CrashPolicy_CRASH_POLICY_RESUME, Writes: n.GetWrites(),
	}
	for _, child := range n.GetChildren() {
		a.Children = append(a.Children, agentFromProto(child))
	}
	return a
}

func optional(n int) *int32 {
	if n == 0 {
		return nil
	}
	v := int32(n)
	return &v
}

// startFromProto reads a start. It fails with bad_request if something is missing or out of range.
func startFromProto(p *harnessv1.RunStart) (*started, error) {
	if p.GetCompiled().GetRoot() == nil {
		return nil, fault.New(fault.BadRequest, "A run needs a snapshot with a root agent.")
	}
	if n := p.MaxSteps; n != nil && (*n < 1 || *n > dsl.MaxSteps) {
		return nil, fault.New(fault.BadRequest, "max_steps is %d and must be from 1 to %d.", *n, dsl.MaxSteps)
	}
	if n := p.MaxOutputTokens; n != nil && (*n < 1 || *n > dsl.MaxOutputTokens) {
		return nil, fault.New(fault.BadRequest, "max_output_tokens is %d and must be from 1 to %d.", *n, dsl.MaxOutputTokens)
	}
	var job *loop.Job
	if p.GetJob() != nil {
		job = &loop.Job{Tools: p.GetJob().GetTools()}
	}
	return &started{workspace: p.GetWorkspace(), Start: loop.Start{
		RunID: p.GetRunId(), SessionID: p.GetSessionId(), ProjectID: p.GetProjectId(), OperatorID: p.GetOperatorId(),
		RequestID: p.GetRequestId(), Agent: agentFromProto(p.GetCompiled().GetRoot()), Prompts: p.GetPrompts(),
		Routes: routesFromProto(p.GetRoutes()), MaxSteps: int(p.GetMaxSteps()), MaxOutputTokens: int(p.GetMaxOutputTokens()),
		ProjectRoot: p.GetProjectRoot(), NoSandbox: p.GetNoSandbox(), OperatorTools: switchesFromProto(p.GetDefaultTools()),
		AuditHead: loop.AuditHead{Hash: p.GetAuditHead().GetHash(), Items: int(p.GetAuditHead().GetItems())}, Job: job,
	}}, nil
}

func routesFromProto(routes map[string]*harnessv1.Route) map[string]loop.Route {
	out := make(map[string]loop.Route, len(routes))
	for alias, r := range routes {
		route := loop.Route{Alias: r.GetAlias(), Targets: make([]loop.Target, len(r.GetTargets()))}
		for i, t := range r.GetTargets() {
			route.Targets[i] = loop.Target{Unusable: fault.FromProto(t.GetUnusable()), Target: llm.Target{
				Provider: t.GetProvider(), Model: t.GetModel(), Driver: t.GetDriver(), APIKey: t.GetApiKey(),
				BaseURL: t.GetBaseUrl(), Headers: t.GetHeaders(), Script: t.GetScript(),
			}}
		}
		out[alias] = route
	}
	return out
}

func partFromProto(p harnessv1.StepPart) loop.Part {
	switch p {
	case harnessv1.StepPart_STEP_PART_TURN:
		return loop.TurnPart
	case harnessv1.StepPart_STEP_PART_RESULTS:
		return loop.ResultsPart
	}
	return 0
}

var rolesFromProto = map[harnessv1.Role]llm.Role{
	harnessv1.Role_ROLE_USER: llm.RoleUser, harnessv1.Role_ROLE_ASSISTANT: llm.RoleAssistant,
	harnessv1.Role_ROLE_TOOL: llm.RoleTool, harnessv1.Role_ROLE_SYSTEM: llm.RoleSystem,
}

// messageFromProto returns a message and about how many bytes it holds. A role that is not known is a user's: its words are
// nobody's but an operator's.
func messageFromProto(p *harnessv1.Message) (llm.Message, int) {
	m := llm.Message{Role: rolesFromProto[p.GetRole()], Blocks: make([]llm.Block, 0, len(p.GetBlocks()))}
	if m.Role == "" {
		m.Role = llm.RoleUser
	}
	size := 64
	for _, b := range p.GetBlocks() {
		block, n := blockFromProto(b)
		m.Blocks = append(m.Blocks, block)
		size += n
	}
	return m, size
}

func blockFromProto(p *harnessv1.Block) (llm.Block, int) {
	const overhead = 64
	switch {
	case p.GetText() != nil:
		t := p.GetText().GetText()
		return llm.Block{Text: &llm.Text{Text: t}}, overhead + len(t)
	case p.GetThinking() != nil:
		t := p.GetThinking()
		return llm.Block{Thinking: &llm.Thinking{Text: t.GetText(), Opaque: t.GetOpaque(), Driver: t.GetDriver()}},
			overhead + len(t.GetText()) + len(t.GetOpaque())
	case p.GetToolCall() != nil:
		c := p.GetToolCall()
		return llm.Block{Call: &llm.ToolCall{ID: c.GetId(), Name: c.GetName(), Input: c.GetInput()}}, overhead + len(c.GetInput())
	case p.GetToolResult() != nil:
		r := p.GetToolResult()
		return llm.Block{Result: &llm.ToolResult{CallID: r.GetToolCallId(), Name: r.GetName(), Content: r.GetContent(), IsError: r.GetIsError()}},
			overhead + len(r.GetContent())
	}
	return llm.Block{Text: &llm.Text{}}, overhead
}

func blocksToProto(blocks []llm.Block) []*harnessv1.Block {
	out := make([]*harnessv1.Block, len(blocks))
	for i, b := range blocks {
		out[i] = &harnessv1.Block{}
		switch {
		case b.Text != nil:
			out[i].Block = &harnessv1.Block_Text{Text: &harnessv1.Text{Text: b.Text.Text}}
		case b.Thinking != nil:
			out[i].Block = &harnessv1.Block_Thinking{Thinking: &harnessv1.Thinking{
				Text: b.Thinking.Text, Opaque: b.Thinking.Opaque, Driver: b.Thinking.Driver,
			}}
		case b.Call != nil:
			out[i].Block = &harnessv1.Block_ToolCall{ToolCall: callToProto(*b.Call)}
		case b.Result != nil:
			out[i].Block = &harnessv1.Block_ToolResult{ToolResult: resultToProto(*b.Result)}
		}
	}
	return out
}

func callToProto(c llm.ToolCall) *harnessv1.ToolCall {
	return &harnessv1.ToolCall{Id: c.ID, Name: c.Name, Input: c.Input}
}

func resultToProto(r llm.ToolResult) *harnessv1.ToolResult {
	return &harnessv1.ToolResult{ToolCallId: r.CallID, Name: r.Name, Content: r.Content, IsError: r.IsError}
}

var stopsToProto = map[llm.StopReason]harnessv1.StopReason{
	llm.StopEnd: harnessv1.StopReason_STOP_REASON_STOP, llm.StopLength: harnessv1.StopReason_STOP_REASON_LENGTH,
	llm.StopToolUse: harnessv1.StopReason_STOP_REASON_TOOL_USE, llm.StopError: harnessv1.StopReason_STOP_REASON_ERROR,
	llm.StopAborted: harnessv1.StopReason_STOP_REASON_ABORTED,
}

func usageToProto(u llm.Usage) *harnessv1.Usage {
	return &harnessv1.Usage{Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
}

func statsToProto(s *loop.Stats) *harnessv1.Stats {
	if s == nil {
		return nil
	}
	out := &harnessv1.Stats{DurationMs: inMilliseconds(s.Duration), Tps: s.TPS}
	if s.TTFT != nil {
		ttft := inMilliseconds(*s.TTFT)
		out.TtftMs = &ttft
	}
	if c := s.Cost; c != nil {
		out.Cost = &harnessv1.Cost{
			Input: c.Input, Output: c.Output, Reasoning: c.Reasoning, CacheRead: c.CacheRead,
			CacheWrite: c.CacheWrite, Total: c.Total,
		}
	}
	return out
}

func inMilliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// eventToProto converts an event. It fails only for an event of no known type.
func eventToProto(e loop.Event) (*harnessv1.RunEvent, error) {
	switch e := e.(type) {
	case loop.Delta:
		kind := harnessv1.DeltaKind_DELTA_KIND_TEXT
		if e.Thinking {
			kind = harnessv1.DeltaKind_DELTA_KIND_THINKING
		}
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Delta{Delta: &harnessv1.Delta{Kind: kind, Text: e.Text}}}, nil
	case loop.MessageStart:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_MessageStart{MessageStart: &harnessv1.MessageStart{
			Provider: e.Target.Provider, Model: e.Target.Model, Driver: e.Target.Driver, StartedAt: e.StartedAt.UnixMilli(),
		}}}, nil
	case loop.ToolStarted:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolCall{ToolCall: &harnessv1.ToolCallStarted{
			Call: callToProto(e.Call), Step: int32(e.Step),
		}}}, nil
	case loop.ToolOutput:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolOutput{ToolOutput: &harnessv1.ToolCallOutput{
			ToolCallId: e.CallID, Stream: e.Stream, Text: e.Text,
		}}}, nil
	case loop.ToolFinished:
		return toolFinishedToProto(e), nil
	case loop.Turn:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Turn{Turn: &harnessv1.Turn{
			Step: int32(e.Step), Blocks: blocksToProto(e.Blocks), StopReason: stopsToProto[e.Stop], Usage: usageToProto(e.Usage),
			Stats: statsToProto(&e.Stats), Provider: e.Target.Provider, Model: e.Target.Model, Wait: e.Wait,
		}}}, nil
	case loop.StepDone:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_StepDone{StepDone: &harnessv1.StepDone{Step: int32(e.Step)}}}, nil
	case loop.Retry:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Retry{Retry: &harnessv1.Retry{
			Error:   e.Err.Proto(),
			Attempt: int32(e.Attempt), DelayMs: e.Delay.Milliseconds(), Provider: e.Next.Provider, Model: e.Next.Model,
		}}}, nil
	case loop.Record:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Audit{Audit: recordToProto(e)}}, nil
	case loop.ApprovalRequested:
		return approvalToProto(e), nil
	case loop.CageChanged:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Cage{Cage: &harnessv1.CageChanged{
			AgentPath: e.Audit.AgentPath, Status: string(e.Status), Tier: e.Tier, BestEffort: e.BestEffort, Summary: e.Summary, Ended: e.Ended,
			Audit: recordToProto(e.Audit), Notes: e.Notes, Found: findingsToProto(e.Found),
		}}}, nil
	case loop.NetworkTried:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Network{Network: &harnessv1.NetworkTried{
			AgentPath: e.Audit.AgentPath, Audit: recordToProto(e.Audit), Attempt: &commonv1.NetworkAttempt{
				At: e.Attempt.At.UnixMilli(), Target: e.Attempt.Target, Allowed: e.Attempt.Allowed, Rule: e.Attempt.Rule, Count: e.Attempt.Count,
			},
		}}}, nil
	case loop.AuditMoved:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_AuditHead{AuditHead: &harnessv1.AuditHead{
			Hash: e.Head.Hash, Items: int32(e.Head.Items),
		}}}, nil
	}
	return nil, fault.New(fault.Internal, "There is no message for an event of type %T.", e)
}

func toolFinishedToProto(e loop.ToolFinished) *harnessv1.RunEvent {
	p := &harnessv1.ToolCallFinished{
		Result: resultToProto(e.Result), Step: int32(e.Step), Input: e.Input, Error: e.Err.Proto(),
		DurationMs: e.Duration.Milliseconds(), Audit: recordsToProto(e.Audit),
	}
	return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolResult{ToolResult: p}}
}

func findingsToProto(found []loop.CageFinding) (list []*commonv1.CageFinding) {
	for _, f := range found {
		list = append(list, &commonv1.CageFinding{Kind: f.Kind, Path: f.Path, Text: f.Text})
	}
	return list
}

func approvalToProto(e loop.ApprovalRequested) *harnessv1.RunEvent {
	return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Approval{Approval: &harnessv1.ApprovalRequested{
		ApprovalId: e.ID, ToolCallId: e.CallID, Step: int32(e.Step), Audit: recordsToProto(e.Audit),
		Subject: &commonv1.ApprovalSubject{
			Tool: e.Subject.Tool, AgentPath: e.Subject.Agent, Reasons: e.Subject.Reasons, Command: e.Subject.Command, Cwd: e.Subject.Cwd,
			Paths: e.Subject.Paths, Preview: e.Subject.Preview,
		},
	}}}
}

var verdictsFromProto = map[harnessv1.ApprovalVerdict]loop.Verdict{
	harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED: loop.Approved,
	harnessv1.ApprovalVerdict_APPROVAL_VERDICT_DENIED:   loop.Denied,
	harnessv1.ApprovalVerdict_APPROVAL_VERDICT_EXPIRED:  loop.Expired,
}

func recordsToProto(records []loop.Record) []*commonv1.AuditRecord {
	var list []*commonv1.AuditRecord
	for _, r := range records {
		list = append(list, recordToProto(r))
	}
	return list
}

func recordToProto(r loop.Record) *commonv1.AuditRecord {
	return &commonv1.AuditRecord{EventType: r.Type, Ts: r.At.UnixMilli(), AgentPath: r.AgentPath, Payload: structs.Of(r.Payload)}
}

var outcomesToProto = map[loop.Outcome]harnessv1.Outcome{
	loop.Completed: harnessv1.Outcome_OUTCOME_COMPLETED, loop.Failed: harnessv1.Outcome_OUTCOME_FAILED,
	loop.Cancelled: harnessv1.Outcome_OUTCOME_CANCELLED,
}

func finishedToProto(f loop.Finished) *harnessv1.RunEvent {
	p := &harnessv1.RunFinished{
		Outcome: outcomesToProto[f.Outcome], StopReason: stopsToProto[f.Stop], Usage: usageToProto(f.Usage), Stats: statsToProto(f.Stats),
		Error: f.Err.Proto(), ClosingText: f.ClosingText, Partial: blocksToProto(slices.Clip(f.Partial)), Steps: int32(f.Steps),
	}
	p.Detail = structs.Of(f.Detail)
	return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Finished{Finished: p}}
}
