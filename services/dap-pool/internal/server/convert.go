package server

import (
	"encoding/json"
	"path/filepath"
	"time"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// maxTimeout is the maximum time to wait for a stop in milliseconds.
const maxTimeout = int64(time.Hour / time.Millisecond)

func startFromProto(p *dappoolv1.StartRequest) (core.Start, error) {
	s := core.Start{
		Owner: ownerFromProto(p.GetAgent()), Invocation: p.GetAgent().GetInvocationId(), Root: p.GetRoot(),
		Cage: dsl.CageFromProto(p.GetCage()), CageID: p.GetCageId(), Env: p.GetEnv(), Runtime: p.GetRuntime(),
		Request: core.Launch, Mode: p.GetMode(), Program: p.GetProgram(), Folder: p.GetFolder(), Args: p.GetArgs(),
		Dir: p.GetCwd(), StopOnEntry: p.GetStopOnEntry(), Port: int(p.GetPort()), ProcessID: int(p.GetProcessId()),
		Timeout: time.Duration(p.GetTimeoutMs()) * time.Millisecond,
	}
	if s.Args == nil {
		s.Args = []string{}
	}
	if p.GetAttach() {
		s.Request = core.Attach
	}
	for _, a := range dsl.DebugAdaptersFromProto(p.GetAdapters()) {
		if len(a.Command) == 0 || a.Command[0] == "" {
			return s, fault.New(fault.InvalidParams, "The debug adapter of %.40q has no command.", a.Runtime).
				With("field", "adapters")
		}
		s.Adapters = append(s.Adapters, core.Declared{
			Runtime: a.Runtime, Command: a.Command, Announces: a.Announces, Type: a.Type, By: "dap.adapters of the project",
		})
	}
	switch {
	case s.Owner.SessionID == "":
		return s, fault.New(fault.BadRequest, "A debug session needs a session_id.")
	case !filepath.IsAbs(s.Root) || !filepath.IsAbs(s.Dir) || !p.GetAttach() && !filepath.IsAbs(s.Program):
		return s, fault.New(fault.BadRequest, "A debug session needs absolute paths.")
	case p.GetTimeoutMs() < 0 || p.GetTimeoutMs() > maxTimeout:
		return s, fault.New(fault.BadRequest, "The timeout of a debug session is out of bounds.")
	}
	return s, nil
}

func actionFromProto(p *dappoolv1.ActRequest) (core.Do, error) {
	d := core.Do{
		Owner: ownerFromProto(p.GetAgent()), Invocation: p.GetAgent().GetInvocationId(), Action: core.Action(p.GetAction()),
		SessionID: p.GetDebugSessionId(), Timeout: time.Duration(p.GetTimeoutMs()) * time.Millisecond,
		Path: p.GetPath(), Line: int(p.GetLine()), Function: p.GetFunction(), Exceptions: p.GetExceptions().GetFilters(),
		SetExceptions: p.GetExceptions() != nil, Condition: p.GetCondition(), HitCount: int(p.GetHitCount()),
		LogMessage: p.GetLogMessage(), Instruction: p.GetInstructionReference(), Offset: int(p.GetOffset()),
		DataID: p.GetDataId(), AccessType: p.GetAccessType(), Name: p.GetName(),
		VariablesReference: int(p.GetVariablesReference()), ThreadID: int(p.GetThreadId()), Levels: int(p.GetLevels()),
		First: int(p.GetFirst()), Frame: int(p.GetFrameId()), Scope: p.GetScope(), Filter: p.GetFilter(),
		Expand: p.GetExpand(), Expression: p.GetExpression(), Context: p.GetContext(), Memory: p.GetMemoryReference(),
		Count: int(p.GetCount()), InstructionOffset: int(p.GetInstructionOffset()), ResolveSymbols: p.GetResolveSymbols(),
		Data: p.GetData(), AllowPartial: p.GetAllowPartial(), Command: p.GetCommand(), Arguments: p.GetArguments(),
		Terminate: p.GetTerminateDebuggee(),
	}
	switch {
	case d.Action < core.SetBreakpoint || d.Action > core.Disconnect:
		return d, fault.New(fault.BadRequest, "The pool knows no action %d.", p.GetAction())
	case d.Owner.SessionID == "":
		return d, fault.New(fault.BadRequest, "An action needs a session_id.")
	case d.Path != "" && !filepath.IsAbs(d.Path):
		return d, fault.New(fault.BadRequest, "An action needs absolute paths.")
	case d.Arguments != "" && !json.Valid([]byte(d.Arguments)):
		return d, fault.New(fault.InvalidParams, "arguments is no JSON text.").With("field", "arguments")
	case min(d.First, d.Frame, d.Levels, d.Count, d.HitCount, d.Line) < 0:
		return d, fault.New(fault.InvalidParams, "A number of the action is negative.")
	case p.GetTimeoutMs() < 0 || p.GetTimeoutMs() > maxTimeout:
		return d, fault.New(fault.BadRequest, "The timeout of an action is out of bounds.")
	}
	return d, nil
}
