package server

import (
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
	"kaged.dev/services/session-manager/internal/wire"
)

//convert:import optional "kaged.dev/pkg/optional"
//convert:import wire "kaged.dev/services/session-manager/internal/wire"
//convert:use wire.SessionStates approvalStates runStates
//convert:one summary record.Session *apiv1.SessionSummary Label=Name Overrides.Model=ModelOverride Issue=IssueNumber
//convert:with Overrides.MaxSteps=MaxStepsOverride Overrides.MaxOutputTokens=MaxOutputTokensOverride
//convert:one session record.Session *apiv1.Session Label=Name Cage=CageStatus
//convert:with >BlockedReason=optional.NonZero(in.Blocked())
//convert:with Overrides.Model=ModelOverride Overrides.MaxSteps=MaxStepsOverride Issue=IssueNumber
//convert:with Overrides.MaxOutputTokens=MaxOutputTokensOverride >LiveSubagents=- >Budget=-
//convert:one totals record.Totals *apiv1.SessionTotals
//convert:one approval record.Approval *apiv1.Approval CallID=ToolCallId >Hash=in.Hash() StandingID=StandingApprovalId
//convert:with >Offers=offers(in.Offers())
//convert:one answerOf *apiv1.AnswerApprovalRequest sessions.Answer
//convert:one standingApprovals []record.Standing []*apiv1.StandingApproval >list
//convert:one standingApproval record.Standing *apiv1.StandingApproval >Scope=in.Scope() >Text=in.Sentence()
//convert:with >Words=in.FirstWords()
//convert:one offers []record.Standing []*apiv1.StandingOffer >list
//convert:one offer record.Standing *apiv1.StandingOffer >Text=in.Sentence() >Words=in.FirstWords()
//convert:one runSummary sessions.RunDetail *apiv1.RunSummary Run.ID=Id Run.SessionID=SessionId Run.State=State
//convert:with Run.TriggerMessageID=TriggerMessageId >Outcome=outcome(in.Run) Run.CreatedAt=CreatedAt
//convert:with Run.StartedAt=StartedAt
//convert:with Run.EndedAt=EndedAt >DurationMs=duration(in.Run) Run.Totals.TokensIn=TokensIn
//convert:with Run.Totals.TokensOut=TokensOut
//convert:with Run.Totals.CostUSD=CostTotal Run.Steps=Steps Run.Error=Error Invocations=SubagentInvocations
//convert:one invocationSummary record.Invocation *apiv1.SubagentInvocation ID=InvocationId ParentID=ParentInvocationId
//convert:with CallID=ToolCallId Cage=CageStatus >Exit=exit(in) Totals.TokensIn=TokensIn Totals.TokensOut=TokensOut
//convert:with Totals.CostUSD=CostUsd >Prompt=- >Output=- >CagePolicy=- >Tools=-
//convert:one invocations []record.Invocation []*apiv1.SubagentInvocation >list
//convert:one liveAgent record.Invocation *apiv1.LiveSubagent ID=InvocationId Cage=CageStatus
//convert:with ParentID=ParentInvocationId
//convert:one liveAgents []record.Invocation []*apiv1.LiveSubagent >list
//convert:one activeRun record.ActiveRun *apiv1.ActiveRun Cage=CageStatus Agents=LiveSubagents
//convert:one running sessions.Running *apiv1.ListProcessesResponse
//convert:one foundSession *apiv1.SessionSummary *apiv1.FoundSession >MatchedMessageId=- >LastRun=-
//convert:one spendSum sessions.Spent *apiv1.SpendSum >CostUsd=in.USD()

// editFromProto reads the fields that distinguish null from absent. It fails with validation_failed for a value of
// a wrong type.
func editFromProto(req *apiv1.UpdateSessionRequest) (sessions.Edit, error) {
	var e sessions.Edit
	var err error
	if e.Label, err = textField("label", req.GetLabel()); err != nil {
		return e, err
	}
	if e.Model, err = textField("model_override", req.GetModelOverride()); err != nil {
		return e, err
	}
	if e.MaxSteps, err = wholeField("max_steps_override", req.GetMaxStepsOverride()); err != nil {
		return e, err
	}
	if e.Budget, err = budgetField(req.GetBudget()); err != nil {
		return e, err
	}
	if e.MaxOutputTokens, err = wholeField("max_output_tokens_override", req.GetMaxOutputTokensOverride()); err != nil {
		return e, err
	}
	e.Issue, err = wholeField("issue_number", req.GetIssueNumber())
	return e, err
}

func textField(name string, v *structpb.Value) (sessions.Field[string], error) {
	f := sessions.Field[string]{Given: v != nil}
	switch k := v.GetKind().(type) {
	case nil, *structpb.Value_NullValue:
	case *structpb.Value_StringValue:
		f.Value = &k.StringValue
	default:
		return f, check.Field(name, "%s must be a string or null.", name)
	}
	return f, nil
}

func wholeField(name string, v *structpb.Value) (sessions.Field[int64], error) {
	f := sessions.Field[int64]{Given: v != nil}
	switch k := v.GetKind().(type) {
	case nil, *structpb.Value_NullValue:
	case *structpb.Value_NumberValue:
		if k.NumberValue != math.Trunc(k.NumberValue) || math.IsInf(k.NumberValue, 0) {
			return f, check.Field(name, "%s must be a whole number or null.", name)
		}
		n := int64(max(math.MinInt32, min(math.MaxInt32, k.NumberValue)))
		f.Value = &n
	default:
		return f, check.Field(name, "%s must be a whole number or null.", name)
	}
	return f, nil
}

var approvalStates = map[record.ApprovalState]apiv1.ApprovalState{
	record.ApprovalPending:  apiv1.ApprovalState_APPROVAL_STATE_PENDING,
	record.ApprovalApproved: apiv1.ApprovalState_APPROVAL_STATE_APPROVED,
	record.ApprovalDenied:   apiv1.ApprovalState_APPROVAL_STATE_DENIED,
	record.ApprovalExpired:  apiv1.ApprovalState_APPROVAL_STATE_EXPIRED,
	record.ApprovalClosed:   apiv1.ApprovalState_APPROVAL_STATE_CLOSED,
}

// approvals returns the approvals of one answer, shortened to fit. A single approval stays complete, because it
// arrived in one message.
func approvals(list []record.Approval) []*apiv1.Approval {
	out, weights := make([]*apiv1.Approval, len(list)), make([]int, len(list))
	for i, a := range list {
		out[i] = approval(a)
		weights[i] = proto.Size(out[i])
	}
	most := level(weights, answerBytes)
	for i, a := range out {
		if weights[i] <= most {
			continue
		}
		s := a.GetSubject()
		share := most / 8
		s.Command, s.Preview, s.Cwd = shorten(s.GetCommand(), 4*share), shorten(s.GetPreview(), share),
			shorten(s.GetCwd(), share/2)
		s.Reasons, s.Paths = few(s.GetReasons(), share), few(s.GetPaths(), share)
	}
	return out
}

var roles = map[record.Role]apiv1.MessageRole{
	record.Operator: apiv1.MessageRole_MESSAGE_ROLE_OPERATOR, record.Primary: apiv1.MessageRole_MESSAGE_ROLE_PRIMARY,
	record.Subagent: apiv1.MessageRole_MESSAGE_ROLE_SUBAGENT, record.System: apiv1.MessageRole_MESSAGE_ROLE_SYSTEM,
}

// messages returns the messages of one answer, shortened to fit.
func messages(list []record.Message) []*apiv1.SessionMessage {
	weights := make([]int, len(list))
	for i, m := range list {
		weights[i] = overhead + len(m.Content) + sum(weigh(m.Blocks))
	}
	most := level(weights, answerBytes)
	out := make([]*apiv1.SessionMessage, len(list))
	for i, m := range list {
		out[i] = message(m, most)
	}
	return out
}

// message returns a message whose content and parts have at most most bytes together.
func message(m record.Message, most int) *apiv1.SessionMessage {
	content := shorten(m.Content, level([]int{len(m.Content), sum(weigh(m.Blocks))}, most))
	return &apiv1.SessionMessage{
		Id: m.ID, SessionId: m.SessionID, Role: roles[m.Role], SubagentInvocationId: m.SubagentInvocationID, Content: content,
		Parts: parts(m.Blocks, most-len(content)), CreatedAt: m.CreatedAt, Superseded: m.Superseded,
		RunId:    optional.NonZero(m.RunID),
		Metadata: metadata(m.Metadata), AlwaysKeep: m.AlwaysKeep, AfterStep: int32(m.AfterStep()),
	}
}

func metadata(m *transcript.Metadata) *apiv1.MessageMetadata {
	if m == nil || m.Kind == transcript.KindSteer {
		return nil
	}
	return &apiv1.MessageMetadata{
		Provider: m.Provider, Model: m.Model, StopReason: string(m.StopReason), Usage: wire.FrameUsage(m.Usage),
		Stats: wire.FrameStats(m.Stats), ErrorMessage: shorten(m.ErrorMessage, errorBytes), ErrorCode: m.ErrorCode,
		ErrorStatus: int32(m.ErrorStatus),
		Kind:        m.Kind,
	}
}

var runStates = map[record.RunState]apiv1.RunState{
	record.RunPending: apiv1.RunState_RUN_STATE_PENDING, record.RunRunning: apiv1.RunState_RUN_STATE_RUNNING,
	record.RunCompleted: apiv1.RunState_RUN_STATE_COMPLETED, record.RunPaused: apiv1.RunState_RUN_STATE_PAUSED,
	record.RunFailed: apiv1.RunState_RUN_STATE_FAILED, record.RunCancelled: apiv1.RunState_RUN_STATE_CANCELLED,
}

// outcome returns the outcome of a run, nil before its end.
func outcome(r record.Run) *string {
	if !r.State.Over() {
		return nil
	}
	return optional.NonZero(string(r.State))
}

// duration returns the duration of a run in milliseconds, nil before its end.
func duration(r record.Run) *int64 {
	if r.EndedAt == 0 || r.StartedAt == 0 {
		return nil
	}
	d := max(r.EndedAt-r.StartedAt, 0)
	return &d
}

func run(d sessions.RunDetail) *apiv1.Run {
	r := d.Run
	out := &apiv1.Run{
		Id: r.ID, SessionId: r.SessionID, TriggerMessageId: r.TriggerMessageID, MessageId: r.MessageID,
		State:   runStates[r.State],
		Outcome: outcome(r), StopReason: optional.NonZero(string(r.StopReason)), CreatedAt: r.CreatedAt,
		StartedAt: optional.NonZero(r.StartedAt),
		EndedAt:   optional.NonZero(r.EndedAt), DurationMs: duration(r), TokensIn: r.Totals.TokensIn,
		TokensOut: r.Totals.TokensOut,
		CostTotal: r.Totals.CostUSD, Error: r.Error.Proto(), CompiledHash: r.CompiledHash, PromptHashes: r.PromptHashes,
		CageStatus: string(r.Cage),
	}
	share := answerBytes
	if len(d.Invocations) > 0 {
		share /= 2
		out.SubagentInvocations = described(d.Invocations, share)
	}
	out.Steps = steps(d.Steps, share)
	return out
}

// steps returns steps with at most most bytes.
func steps(list []transcript.Step, most int) []*apiv1.RunStep {
	blocks, weights := make([][]llm.Block, len(list)), make([]int, len(list))
	for i, s := range list {
		blocks[i] = withResults(s)
		weights[i] = overhead + sum(weigh(blocks[i]))
	}
	most = level(weights, most)
	var out []*apiv1.RunStep
	for i, s := range list {
		out = append(out, &apiv1.RunStep{
			Step: int32(s.Step), Parts: parts(blocks[i], most), StopReason: string(s.Stop), Provider: s.Provider, Model: s.Model,
			Usage: wire.FrameUsage(&s.Usage), Stats: wire.FrameStats(s.Stats), CreatedAt: s.At,
		})
	}
	return out
}

// withResults returns a step's blocks followed by the results of its tools.
func withResults(s transcript.Step) []llm.Block {
	blocks := s.Blocks
	for i := range s.Results {
		blocks = append(blocks[:len(blocks):len(blocks)], llm.Block{Result: &s.Results[i]})
	}
	return blocks
}
