// Package dappool debugs programs through the service dap-pool.
package dappool

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/debugging"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// Client is a [debugging.Debuggers].
type Client struct {
	client dappoolv1.DAPPoolServiceClient
}

var _ debugging.Debuggers = (*Client)(nil)

// New returns a Client that uses client.
func New(client dappoolv1.DAPPoolServiceClient) *Client { return &Client{client} }

var actions = map[string]dappoolv1.Action{
	"set_breakpoint":                dappoolv1.Action_ACTION_SET_BREAKPOINT,
	"remove_breakpoint":             dappoolv1.Action_ACTION_REMOVE_BREAKPOINT,
	"list_breakpoints":              dappoolv1.Action_ACTION_LIST_BREAKPOINTS,
	"set_instruction_breakpoint":    dappoolv1.Action_ACTION_SET_INSTRUCTION_BREAKPOINT,
	"remove_instruction_breakpoint": dappoolv1.Action_ACTION_REMOVE_INSTRUCTION_BREAKPOINT,
	"data_breakpoint_info":          dappoolv1.Action_ACTION_DATA_BREAKPOINT_INFO,
	"set_data_breakpoint":           dappoolv1.Action_ACTION_SET_DATA_BREAKPOINT,
	"remove_data_breakpoint":        dappoolv1.Action_ACTION_REMOVE_DATA_BREAKPOINT,
	"step_into":                     dappoolv1.Action_ACTION_STEP_INTO, "step_over": dappoolv1.Action_ACTION_STEP_OVER,
	"step_out": dappoolv1.Action_ACTION_STEP_OUT, "continue": dappoolv1.Action_ACTION_CONTINUE,
	"pause": dappoolv1.Action_ACTION_PAUSE, "stack_trace": dappoolv1.Action_ACTION_STACK_TRACE,
	"threads": dappoolv1.Action_ACTION_THREADS, "scopes": dappoolv1.Action_ACTION_SCOPES,
	"variables": dappoolv1.Action_ACTION_VARIABLES, "evaluate": dappoolv1.Action_ACTION_EVALUATE,
	"disassemble": dappoolv1.Action_ACTION_DISASSEMBLE, "read_memory": dappoolv1.Action_ACTION_READ_MEMORY,
	"write_memory": dappoolv1.Action_ACTION_WRITE_MEMORY, "modules": dappoolv1.Action_ACTION_MODULES,
	"loaded_sources": dappoolv1.Action_ACTION_LOADED_SOURCES, "custom_request": dappoolv1.Action_ACTION_CUSTOM_REQUEST,
	"disconnect": dappoolv1.Action_ACTION_DISCONNECT,
}

// Start implements debugging.Debuggers.
func (c *Client) Start(ctx context.Context, s debugging.Start) (debugging.Answer, error) {
	var adapters []*commonv1.DebugAdapter
	for _, a := range s.Adapters {
		adapters = append(adapters, a.Proto())
	}
	res, err := c.client.Start(ctx, &dappoolv1.StartRequest{
		Adapters: adapters,
		Agent:    agent(s.Agent), Root: s.Root, Cage: s.Cage.Proto(), CageId: s.CageID, Env: s.Env, Runtime: s.Runtime,
		Attach: s.Attach, Mode: s.Mode, Program: s.Program, Folder: s.Folder, Args: s.Args, Cwd: s.Dir,
		StopOnEntry: s.StopOnEntry, Port: int32(s.Port), ProcessId: int32(s.ProcessID), TimeoutMs: s.Timeout.Milliseconds(),
	})
	if err != nil {
		return debugging.Answer{}, err
	}
	return debugging.Answer{
		Session: res.GetState().GetDebugSessionId(), State: state(res.GetState()),
		Records: contract.RecordsFromProto(res.GetRecords()),
	}, nil
}

// Act implements debugging.Debuggers.
func (c *Client) Act(ctx context.Context, d debugging.Do) (debugging.Answer, error) {
	req := &dappoolv1.ActRequest{
		Agent: agent(d.Agent), Action: actions[d.Action], DebugSessionId: d.Session, TimeoutMs: d.Timeout.Milliseconds(),
		Path: d.Path, Line: int32(d.Line), Function: d.Function, Condition: d.Condition, HitCount: int32(d.HitCount),
		LogMessage: d.LogMessage, InstructionReference: d.Instruction, Offset: int32(d.Offset), DataId: d.DataID,
		AccessType: d.AccessType, Name: d.Name, VariablesReference: int64(d.Reference), ThreadId: int64(d.ThreadID),
		Levels: int32(d.Levels), First: int32(d.First), FrameId: int32(d.Frame), Scope: d.Scope, Filter: d.Filter,
		Expand: d.Expand, Expression: d.Expression, Context: d.Context, MemoryReference: d.Memory, Count: int32(d.Count),
		InstructionOffset: int32(d.InstructionOffset), ResolveSymbols: d.ResolveSymbols, Data: d.Data,
		AllowPartial: d.AllowPartial, Command: d.Command, Arguments: d.Arguments, TerminateDebuggee: d.Terminate,
	}
	if d.Exceptions != nil {
		req.Exceptions = &dappoolv1.Exceptions{Filters: *d.Exceptions}
	}
	res, err := c.client.Act(ctx, req)
	if err != nil {
		return debugging.Answer{}, err
	}
	return answer(res), nil
}

// EndRun implements debugging.Debuggers.
func (c *Client) EndRun(ctx context.Context, session, run string) ([]contract.Record, error) {
	res, err := c.client.EndRun(ctx, &dappoolv1.EndRunRequest{SessionId: session, RunId: run})
	return contract.RecordsFromProto(res.GetRecords()), err
}
