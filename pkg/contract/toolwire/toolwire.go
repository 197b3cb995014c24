// Package toolwire is the wire form of calls and cages between tool-runner and its callers: package contract in
// kaged.toolrunner.v1.
package toolwire

import (
	"cmp"

	"kaged.dev/pkg/contract"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

//convert:both Caller fromCaller *contract.Caller *toolrunnerv1.ToolContext Agent=Caller Root=ProjectRoot
//convert:with Issue=IssueNumber
//convert:both job fromJob contract.Job *toolrunnerv1.JobPolicy
//convert:one question(records []contract.Record) contract.Question *toolrunnerv1.ApprovalNeeded
//convert:with >Audit=contract.RecordsProto(records)
//convert:one fromQuestion *toolrunnerv1.ApprovalNeeded contract.Question
//convert:both opened fromOpened contract.Cage *toolrunnerv1.CageOpened ID=CageId
//convert:both ended fromEnded contract.CageEvent *toolrunnerv1.CageEnded Ended=Reason <Opened=- <Network=- <Checked=-
//convert:both Running FromRunning contract.Running *toolrunnerv1.ListProcessesResponse

// FromCaller is the reverse of [Caller].
func FromCaller(p *toolrunnerv1.ToolContext) (c contract.Caller) {
	if p != nil {
		c = *fromCaller(p)
	}
	return c
}

// Question encodes a call's question to the operator, with the records of the call.
func Question(q contract.Question, records []contract.Record) *toolrunnerv1.RunToolEvent {
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Approval{Approval: question(q, records)}}
}

// FromQuestion is the reverse of [Question].
func FromQuestion(p *toolrunnerv1.ApprovalNeeded) (contract.Question, []contract.Record) {
	return fromQuestion(p), contract.RecordsFromProto(p.GetAudit())
}

// CageEvent encodes an event of a cage, nil for an empty one.
func CageEvent(e contract.CageEvent) *toolrunnerv1.HoldCageEvent {
	switch {
	case e.Checked:
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Checked{Checked: &toolrunnerv1.CageChecked{}}}
	case e.Opened != nil:
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Opened{Opened: opened(*e.Opened)}}
	case e.Network != nil:
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Network{Network: e.Network.Proto()}}
	case e.Ended != "":
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Ended{Ended: ended(e)}}
	}
	return nil
}

// FromCageEvent is the reverse of [CageEvent]. An end without a reason is a loss. An unknown event is empty.
func FromCageEvent(p *toolrunnerv1.HoldCageEvent) (event contract.CageEvent) {
	switch e := p.GetEvent().(type) {
	case *toolrunnerv1.HoldCageEvent_Checked:
		event.Checked = true
	case *toolrunnerv1.HoldCageEvent_Opened:
		cage := fromOpened(e.Opened)
		event.Opened = &cage
	case *toolrunnerv1.HoldCageEvent_Network:
		attempt := contract.AttemptFromProto(e.Network)
		event.Network = &attempt
	case *toolrunnerv1.HoldCageEvent_Ended:
		event = fromEnded(e.Ended)
		event.Ended = cmp.Or(event.Ended, "lost")
	}
	return event
}
