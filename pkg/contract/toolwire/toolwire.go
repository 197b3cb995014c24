// Package toolwire is the wire form of calls and cages between tool-runner and its callers: package contract in
// kaged.toolrunner.v1.
package toolwire

import (
	"cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Caller returns a caller as a message.
func Caller(c *contract.Caller) *toolrunnerv1.ToolContext {
	p := &toolrunnerv1.ToolContext{
		SessionId: c.SessionID, RunId: c.RunID, RequestId: c.RequestID, Caller: c.Agent, ProjectId: c.ProjectID,
		ProjectRoot: c.Root, OperatorId: c.OperatorID, Cage: c.Cage.Proto(), CageId: c.CageID, Tools: c.Tools,
		KnowsFiles: c.KnowsFiles, InvocationId: c.InvocationID, ProjectCaged: c.ProjectCaged,
		LanguageServers: dsl.LanguageServersProto(c.LanguageServers), Debugging: c.Debugging.Proto(),
		IssueNumber: c.Issue,
	}
	if c.Job != nil {
		p.Job = &toolrunnerv1.JobPolicy{Tools: c.Job.Tools}
	}
	return p
}

// FromCaller is the reverse of [Caller].
func FromCaller(p *toolrunnerv1.ToolContext) contract.Caller {
	c := contract.Caller{
		SessionID: p.GetSessionId(), RunID: p.GetRunId(), RequestID: p.GetRequestId(), Agent: p.GetCaller(),
		ProjectID: p.GetProjectId(), Root: p.GetProjectRoot(), OperatorID: p.GetOperatorId(),
		Cage: dsl.CageFromProto(p.GetCage()), CageID: p.GetCageId(), Tools: p.GetTools(), KnowsFiles: p.GetKnowsFiles(),
		InvocationID: p.GetInvocationId(), ProjectCaged: p.GetProjectCaged(),
		LanguageServers: dsl.LanguageServersFromProto(p.GetLanguageServers()),
		Debugging:       dsl.DebuggingFromProto(p.GetDebugging()),
		Issue:           p.GetIssueNumber(),
	}
	if p.GetJob() != nil {
		c.Job = &contract.Job{Tools: p.GetJob().GetTools()}
	}
	return c
}

// Question returns a call's question to the operator as an event, with the records of the call.
func Question(q contract.Question, records []contract.Record) *toolrunnerv1.RunToolEvent {
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Approval{Approval: &toolrunnerv1.ApprovalNeeded{
		Subject: q.Subject.Proto(), Fingerprint: q.Fingerprint, Audit: contract.RecordsProto(records),
	}}}
}

// FromQuestion is the reverse of [Question].
func FromQuestion(p *toolrunnerv1.ApprovalNeeded) (contract.Question, []contract.Record) {
	return contract.Question{Subject: contract.SubjectFromProto(p.GetSubject()), Fingerprint: p.GetFingerprint()},
		contract.RecordsFromProto(p.GetAudit())
}

// CageEvent returns an event of a cage as a message, nil for an empty one.
func CageEvent(e contract.CageEvent) *toolrunnerv1.HoldCageEvent {
	switch {
	case e.Opened != nil:
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Opened{Opened: &toolrunnerv1.CageOpened{
			Tier: e.Opened.Tier, BestEffort: e.Opened.BestEffort, CageId: e.Opened.ID, Summary: e.Opened.Summary,
			Notes: e.Opened.Notes,
		}}}
	case e.Network != nil:
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Network{Network: e.Network.Proto()}}
	case e.Ended != "":
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Ended{Ended: &toolrunnerv1.CageEnded{
			Reason: e.Ended, Found: contract.FindingsProto(e.Found),
		}}}
	}
	return nil
}

// FromCageEvent is the reverse of [CageEvent]. An end without a reason is a loss. An event that this
// build does not know is empty.
func FromCageEvent(p *toolrunnerv1.HoldCageEvent) contract.CageEvent {
	switch e := p.GetEvent().(type) {
	case *toolrunnerv1.HoldCageEvent_Opened:
		return contract.CageEvent{Opened: &contract.Cage{
			ID: e.Opened.GetCageId(), Tier: e.Opened.GetTier(), BestEffort: e.Opened.GetBestEffort(),
			Summary: e.Opened.GetSummary(), Notes: e.Opened.GetNotes(),
		}}
	case *toolrunnerv1.HoldCageEvent_Network:
		attempt := contract.AttemptFromProto(e.Network)
		return contract.CageEvent{Network: &attempt}
	case *toolrunnerv1.HoldCageEvent_Ended:
		return contract.CageEvent{
			Ended: cmp.Or(e.Ended.GetReason(), "lost"), Found: contract.FindingsFromProto(e.Ended.GetFound()),
		}
	}
	return contract.CageEvent{}
}

// Running returns the commands and cages of a workspace as a response.
func Running(r contract.Running) *toolrunnerv1.ListProcessesResponse {
	resp := &toolrunnerv1.ListProcessesResponse{}
	for _, p := range r.Processes {
		resp.Processes = append(resp.Processes, p.Proto())
	}
	for _, c := range r.Cages {
		resp.Cages = append(resp.Cages, c.Proto())
	}
	return resp
}

// FromRunning is the reverse of [Running].
func FromRunning(resp *toolrunnerv1.ListProcessesResponse) contract.Running {
	var r contract.Running
	for _, p := range resp.GetProcesses() {
		r.Processes = append(r.Processes, contract.ProcessFromProto(p))
	}
	for _, c := range resp.GetCages() {
		r.Cages = append(r.Cages, contract.CageFromProto(c))
	}
	return r
}
