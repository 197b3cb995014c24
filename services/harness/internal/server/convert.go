package server

import (
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/loop"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// startFromProto converts a start. It fails with bad_request if a field is missing or out of range.
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
	var job *contract.Job
	if p.GetJob() != nil {
		job = &contract.Job{Tools: p.GetJob().GetTools()}
	}
	return &started{workspace: p.GetWorkspace(), beginnings: p.GetBeginnings(), Start: loop.Start{
		RunID: p.GetRunId(), SessionID: p.GetSessionId(), ProjectID: p.GetProjectId(), OperatorID: p.GetOperatorId(),
		RequestID: p.GetRequestId(), Agent: compile.AgentFromProto(p.GetCompiled().GetRoot()), Prompts: p.GetPrompts(),
		Routes: harnesswire.FromRoutes(p.GetRoutes()), MaxSteps: int(p.GetMaxSteps()), Issue: p.GetIssueNumber(),
		Todos:           harnesswire.FromOpenTodos(p.GetOpenTodos()),
		MaxOutputTokens: int(p.GetMaxOutputTokens()),
		ProjectRoot:     p.GetProjectRoot(), NoSandbox: p.GetNoSandbox(),
		OperatorTools: harnesswire.FromSwitches(p.GetDefaultTools()),
		MessageID:     p.GetMessageId(), SupersededTurns: int(p.GetSupersededTurns()),
		Ledger: harnesswire.FromLedger(p.GetLedger()),
		First:  p.GetFirst(), Injections: harnesswire.FromInjections(p.GetInjections()),
		AuditHead: harnesswire.FromAuditHead(p.GetAuditHead()), Job: job,
		LiveAgents: int(p.GetLiveAgents()), Metered: p.GetMetered(),
		LanguageServers: dsl.LanguageServersFromProto(p.GetCompiled().GetLanguageServers()),
		Debugging:       dsl.DebuggingFromProto(p.GetCompiled().GetDebugging()),
	}}, nil
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

// size estimates the bytes of a message in memory.
func size(m llm.Message) int {
	const overhead = 64
	n := overhead
	for _, b := range m.Blocks {
		n += overhead + b.Size()
	}
	return n
}
