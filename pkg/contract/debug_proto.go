package contract

// The messages of debug sessions. Text that is not UTF-8 is made valid.
//
//convert:import commonv1 "kaged.dev/proto/gen/kaged/common/v1"
//convert:both .Proto DebugSessionFromProto DebugSession *commonv1.DebugSession ID=DebugSessionId
//convert:with Invocation=InvocationId
//convert:with Owner.SessionID=SessionId Owner.RunID=RunId Owner.Agent=AgentPath >string=valid
//convert:one DebugSessionsProto []DebugSession []*commonv1.DebugSession
//convert:one DebugSessionsFromProto []*commonv1.DebugSession []DebugSession
//convert:both .Proto DebugStateFromProto DebugState *commonv1.DebugState ID=DebugSessionId Reason=StoppedReason
//convert:with Thread=ThreadId >string=valid
//convert:both .Proto DebugMoveFromProto *DebugMove *commonv1.DebugMove Operator=OperatorId
//convert:both DebugMovesProto DebugMovesFromProto []DebugMove []*commonv1.DebugMove
//convert:both .Proto DebugOutputFromProto DebugOutput *commonv1.DebugOutput >string=valid
//convert:both debugThreadProto debugThreadFromProto DebugThread *commonv1.DebugThread >string=valid
//convert:both DebugThreadsProto DebugThreadsFromProto []DebugThread []*commonv1.DebugThread
//convert:both .Proto DebugFrameFromProto DebugFrame *commonv1.DebugFrame Instruction=InstructionReference >string=valid
//convert:both DebugFramesProto DebugFramesFromProto []DebugFrame []*commonv1.DebugFrame
//convert:both .Proto DebugVariableFromProto DebugVariable *commonv1.DebugVariable Reference=VariablesReference
//convert:with Memory=MemoryReference >string=valid
//convert:both DebugVariablesProto DebugVariablesFromProto []DebugVariable []*commonv1.DebugVariable
//convert:both .Proto DebugBreakpointFromProto DebugBreakpoint *commonv1.DebugBreakpoint Actual=ActualLine >string=valid
//convert:both DebugBreakpointsProto DebugBreakpointsFromProto []DebugBreakpoint []*commonv1.DebugBreakpoint
//convert:both debugLineProto debugLineFromProto DebugLine *commonv1.DebugLine >string=valid
//convert:both .Proto DebugViewFromProto *DebugView *commonv1.DebugView Frame=FrameId
//convert:both debugRunningProto debugRunningFromProto DebugRunning *commonv1.DebugRunning >string=valid
//convert:both debugStopProto debugStopFromProto DebugStop *commonv1.DebugStop Thread=ThreadId >string=valid
//convert:both debugEndProto debugEndFromProto DebugEnd *commonv1.DebugEnd
//convert:both .Proto DebugEventFromProto DebugEvent *commonv1.DebugEvent ID=DebugSessionId Invocation=InvocationId
//convert:with Agent=AgentPath Stop=Stopped End=Ended
