package gateway_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// manager is a session-manager with a test's answers, which remembers its calls.
type manager struct {
	sessionmanagerv1.UnimplementedProjectServiceServer
	sessionmanagerv1.UnimplementedDslServiceServer
	sessionmanagerv1.UnimplementedSessionServiceServer
	sessionmanagerv1.UnimplementedAuditServiceServer
	sessionmanagerv1.UnimplementedOperatorServiceServer
	sessionmanagerv1.UnimplementedAttachServiceServer
	sessionmanagerv1.UnimplementedTerminalServiceServer
	sessionmanagerv1.UnimplementedRegistryServiceServer
	sessionmanagerv1.UnimplementedTokenServiceServer
	sessionmanagerv1.UnimplementedLocalServiceServer
	sessionmanagerv1.UnimplementedDoctorServiceServer
	sessionmanagerv1.UnimplementedSystemServiceServer
	sessionmanagerv1.UnimplementedLogServiceServer
	issuev1.UnimplementedIssueServiceServer

	mu        sync.Mutex // guards the fields below
	answer    func(ctx context.Context, req proto.Message) (proto.Message, error)
	asked     []proto.Message
	callers   []ident.Caller
	secret    []byte
	noSecret  error
	tokens    map[string]bool
	api       map[string]*sessionmanagerv1.AuthenticateTokenResponse // by the text of an API token
	records   []*sessionmanagerv1.RecordAuditRequest
	recorded  chan struct{} // gets one for each record
	operator  *sessionmanagerv1.GetOperatorResponse
	notReady  error
	holds     map[string]*held
	seqs      map[string]map[string]int64 // by session and channel
	ended     map[string]bool
	terminals map[string]string // the session of each background process
	// rates answers TakeTokens; nil is a session-manager that cannot.
	rates    func(*sessionmanagerv1.TakeTokensRequest) *sessionmanagerv1.TakeTokensResponse
	typed    []*sessionmanagerv1.RecordTerminalInputRequest
	untyped  error       // fails records of input
	attaches chan string // gets the session of each Attach that was let in
	released chan string // gets the session of each hold that has ended
}

func newManager() *manager {
	return &manager{
		secret: []byte(rand.Text()), tokens: map[string]bool{}, operator: &sessionmanagerv1.GetOperatorResponse{},
		recorded: make(chan struct{}, 10000), holds: map[string]*held{}, seqs: map[string]map[string]int64{},
		ended:    map[string]bool{},
		attaches: make(chan string, 10000), released: make(chan string, 10000),
	}
}

func (m *manager) module() host.Module {
	return host.Module{Name: "session-manager", New: func(*host.Env) (host.Service, error) { return m, nil }}
}

// issueService is the service issue, which answers as the manager does.
type issueService struct{ *manager }

func (s issueService) Register(r grpc.ServiceRegistrar) {
	issuev1.RegisterIssueServiceServer(r, s.manager)
}

func (m *manager) issues() host.Module {
	return host.Module{Name: "issue", New: func(*host.Env) (host.Service, error) { return issueService{m}, nil }}
}

// CheckProject knows every project but one.
func (m *manager) CheckProject(_ context.Context,
	r *sessionmanagerv1.CheckProjectRequest,
) (*sessionmanagerv1.CheckProjectResponse, error) {
	if r.GetId() == "unknown" {
		return nil, fault.New(fault.NotFound, "There is no project %q.", r.GetId())
	}
	if r.GetWorkflow() == "undeclared" {
		return nil, fault.New(fault.ValidationFailed, "There is no workflow %q.", r.GetWorkflow())
	}
	return &sessionmanagerv1.CheckProjectResponse{}, nil
}

// Register implements host.Service.
func (m *manager) Register(r grpc.ServiceRegistrar) {
	sessionmanagerv1.RegisterProjectServiceServer(r, m)
	sessionmanagerv1.RegisterDslServiceServer(r, m)
	sessionmanagerv1.RegisterSessionServiceServer(r, m)
	sessionmanagerv1.RegisterAuditServiceServer(r, m)
	sessionmanagerv1.RegisterOperatorServiceServer(r, m)
	sessionmanagerv1.RegisterAttachServiceServer(r, m)
	sessionmanagerv1.RegisterTerminalServiceServer(r, m)
	sessionmanagerv1.RegisterRegistryServiceServer(r, m)
	sessionmanagerv1.RegisterTokenServiceServer(r, m)
	sessionmanagerv1.RegisterLocalServiceServer(r, m)
	sessionmanagerv1.RegisterDoctorServiceServer(r, m)
	sessionmanagerv1.RegisterSystemServiceServer(r, m)
	sessionmanagerv1.RegisterLogServiceServer(r, m)
}

// Run implements host.Service.
func (m *manager) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Ready implements host.Readier.
func (m *manager) Ready(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.notReady
}

// with changes the manager between its calls.
func (m *manager) with(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// replies makes every call of the API answer m, or fail with err.
func (m *manager) replies(reply proto.Message, err error) {
	m.with(func() {
		m.asked, m.callers = nil, nil
		m.answer = func(context.Context, proto.Message) (proto.Message, error) { return reply, err }
	})
}

// reply answers a call of the API.
func reply[T proto.Message](ctx context.Context, m *manager, req proto.Message) (resp T, err error) {
	m.mu.Lock()
	m.asked = append(m.asked, req)
	m.callers = append(m.callers, ident.CallerFrom(ctx))
	answer := m.answer
	m.mu.Unlock()
	if answer == nil {
		return resp, fault.New(fault.NotFound, "The test has no answer to this.")
	}
	msg, err := answer(ctx, req)
	if err != nil {
		return resp, err
	}
	return msg.(T), nil
}

// AuthenticateToken knows the tokens of api.
func (m *manager) AuthenticateToken(
	_ context.Context, r *sessionmanagerv1.AuthenticateTokenRequest,
) (*sessionmanagerv1.AuthenticateTokenResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.api[r.GetToken()]; t != nil {
		return t, nil
	}
	return nil, fault.New(fault.Unauthenticated, "The API token is not valid.").With("reason", "invalid_token")
}

func (m *manager) CreateToken(ctx context.Context, r *apiv1.CreateTokenRequest) (*apiv1.CreateTokenResponse, error) {
	return reply[*apiv1.CreateTokenResponse](ctx, m, r)
}

// TakeTokens answers as a test says, else as a session-manager that is away.
func (m *manager) TakeTokens(
	_ context.Context, r *sessionmanagerv1.TakeTokensRequest,
) (*sessionmanagerv1.TakeTokensResponse, error) {
	m.mu.Lock()
	rates := m.rates
	m.mu.Unlock()
	if rates == nil {
		return nil, fault.New(fault.Unavailable, "The store is away.")
	}
	return rates(r), nil
}

func (m *manager) ListTokens(ctx context.Context, r *apiv1.ListTokensRequest) (*apiv1.ListTokensResponse, error) {
	return reply[*apiv1.ListTokensResponse](ctx, m, r)
}

func (m *manager) RevokeToken(ctx context.Context, r *apiv1.RevokeTokenRequest) (*apiv1.RevokeTokenResponse, error) {
	return reply[*apiv1.RevokeTokenResponse](ctx, m, r)
}

func (m *manager) ListProjects(ctx context.Context, r *apiv1.ListProjectsRequest) (*apiv1.ListProjectsResponse, error) {
	return reply[*apiv1.ListProjectsResponse](ctx, m, r)
}

func (m *manager) LoadProject(ctx context.Context, r *apiv1.LoadProjectRequest) (*apiv1.LoadProjectResponse, error) {
	return reply[*apiv1.LoadProjectResponse](ctx, m, r)
}

func (m *manager) GetProject(ctx context.Context, r *apiv1.GetProjectRequest) (*apiv1.GetProjectResponse, error) {
	return reply[*apiv1.GetProjectResponse](ctx, m, r)
}

func (m *manager) GetProjectApproval(
	ctx context.Context, r *apiv1.GetProjectApprovalRequest,
) (*apiv1.GetProjectApprovalResponse, error) {
	return reply[*apiv1.GetProjectApprovalResponse](ctx, m, r)
}

func (m *manager) ApproveProject(
	ctx context.Context, r *apiv1.ApproveProjectRequest,
) (*apiv1.ApproveProjectResponse, error) {
	return reply[*apiv1.ApproveProjectResponse](ctx, m, r)
}

func (m *manager) ListLanguageServers(
	ctx context.Context, r *apiv1.ListLanguageServersRequest,
) (*apiv1.ListLanguageServersResponse, error) {
	return reply[*apiv1.ListLanguageServersResponse](ctx, m, r)
}

func (m *manager) RestartLanguageServers(
	ctx context.Context, r *apiv1.RestartLanguageServersRequest,
) (*apiv1.RestartLanguageServersResponse, error) {
	return reply[*apiv1.RestartLanguageServersResponse](ctx, m, r)
}

func (m *manager) GetProjectCapabilities(
	ctx context.Context, r *apiv1.GetProjectCapabilitiesRequest,
) (*apiv1.GetProjectCapabilitiesResponse, error) {
	return reply[*apiv1.GetProjectCapabilitiesResponse](ctx, m, r)
}

func (m *manager) ReloadProject(
	ctx context.Context, r *apiv1.ReloadProjectRequest,
) (*apiv1.ReloadProjectResponse, error) {
	return reply[*apiv1.ReloadProjectResponse](ctx, m, r)
}

func (m *manager) UnregisterProject(
	ctx context.Context, r *apiv1.UnregisterProjectRequest,
) (*apiv1.UnregisterProjectResponse, error) {
	return reply[*apiv1.UnregisterProjectResponse](ctx, m, r)
}

func (m *manager) CreateSession(
	ctx context.Context, r *apiv1.CreateSessionRequest,
) (*apiv1.CreateSessionResponse, error) {
	return reply[*apiv1.CreateSessionResponse](ctx, m, r)
}

func (m *manager) ListSessions(ctx context.Context, r *apiv1.ListSessionsRequest) (*apiv1.ListSessionsResponse, error) {
	return reply[*apiv1.ListSessionsResponse](ctx, m, r)
}

func (m *manager) ListAllApprovals(
	ctx context.Context, r *apiv1.ListAllApprovalsRequest,
) (*apiv1.ListAllApprovalsResponse, error) {
	return reply[*apiv1.ListAllApprovalsResponse](ctx, m, r)
}

func (m *manager) ListStandingApprovals(
	ctx context.Context, r *apiv1.ListStandingApprovalsRequest,
) (*apiv1.ListStandingApprovalsResponse, error) {
	return reply[*apiv1.ListStandingApprovalsResponse](ctx, m, r)
}

func (m *manager) RevokeStandingApproval(
	ctx context.Context, r *apiv1.RevokeStandingApprovalRequest,
) (*apiv1.RevokeStandingApprovalResponse, error) {
	return reply[*apiv1.RevokeStandingApprovalResponse](ctx, m, r)
}

func (m *manager) SearchSessions(
	ctx context.Context, r *apiv1.SearchSessionsRequest,
) (*apiv1.SearchSessionsResponse, error) {
	return reply[*apiv1.SearchSessionsResponse](ctx, m, r)
}

func (m *manager) GetSession(ctx context.Context, r *apiv1.GetSessionRequest) (*apiv1.GetSessionResponse, error) {
	return reply[*apiv1.GetSessionResponse](ctx, m, r)
}

func (m *manager) UpdateSession(
	ctx context.Context, r *apiv1.UpdateSessionRequest,
) (*apiv1.UpdateSessionResponse, error) {
	return reply[*apiv1.UpdateSessionResponse](ctx, m, r)
}

func (m *manager) EndSession(ctx context.Context, r *apiv1.EndSessionRequest) (*apiv1.EndSessionResponse, error) {
	return reply[*apiv1.EndSessionResponse](ctx, m, r)
}

func (m *manager) PostMessage(ctx context.Context, r *apiv1.PostMessageRequest) (*apiv1.PostMessageResponse, error) {
	return reply[*apiv1.PostMessageResponse](ctx, m, r)
}

func (m *manager) ListMessages(ctx context.Context, r *apiv1.ListMessagesRequest) (*apiv1.ListMessagesResponse, error) {
	return reply[*apiv1.ListMessagesResponse](ctx, m, r)
}

func (m *manager) ListRuns(ctx context.Context, r *apiv1.ListRunsRequest) (*apiv1.ListRunsResponse, error) {
	return reply[*apiv1.ListRunsResponse](ctx, m, r)
}

func (m *manager) GetRun(ctx context.Context, r *apiv1.GetRunRequest) (*apiv1.GetRunResponse, error) {
	return reply[*apiv1.GetRunResponse](ctx, m, r)
}

func (m *manager) GetToolResult(
	ctx context.Context, r *apiv1.GetToolResultRequest,
) (*apiv1.GetToolResultResponse, error) {
	return reply[*apiv1.GetToolResultResponse](ctx, m, r)
}

func (m *manager) ListApprovals(
	ctx context.Context, r *apiv1.ListApprovalsRequest,
) (*apiv1.ListApprovalsResponse, error) {
	return reply[*apiv1.ListApprovalsResponse](ctx, m, r)
}

func (m *manager) ListProcesses(
	ctx context.Context, r *apiv1.ListProcessesRequest,
) (*apiv1.ListProcessesResponse, error) {
	return reply[*apiv1.ListProcessesResponse](ctx, m, r)
}

func (m *manager) GetSpend(ctx context.Context, r *apiv1.GetSpendRequest) (*apiv1.GetSpendResponse, error) {
	return reply[*apiv1.GetSpendResponse](ctx, m, r)
}

func (m *manager) SignalProcess(
	ctx context.Context, r *apiv1.SignalProcessRequest,
) (*apiv1.SignalProcessResponse, error) {
	return reply[*apiv1.SignalProcessResponse](ctx, m, r)
}

func (m *manager) GetDebug(ctx context.Context, r *apiv1.GetDebugRequest) (*apiv1.GetDebugResponse, error) {
	return reply[*apiv1.GetDebugResponse](ctx, m, r)
}

func (m *manager) ControlDebug(ctx context.Context, r *apiv1.ControlDebugRequest) (*apiv1.ControlDebugResponse, error) {
	return reply[*apiv1.ControlDebugResponse](ctx, m, r)
}

func (m *manager) GetLedger(
	ctx context.Context, r *apiv1.GetLedgerRequest,
) (*apiv1.GetLedgerResponse, error) {
	return reply[*apiv1.GetLedgerResponse](ctx, m, r)
}

func (m *manager) GetContextEstimate(
	ctx context.Context, r *apiv1.GetContextEstimateRequest,
) (*apiv1.GetContextEstimateResponse, error) {
	return reply[*apiv1.GetContextEstimateResponse](ctx, m, r)
}

func (m *manager) CompactSession(
	ctx context.Context, r *apiv1.CompactSessionRequest,
) (*apiv1.CompactSessionResponse, error) {
	return reply[*apiv1.CompactSessionResponse](ctx, m, r)
}

func (m *manager) ProposeCompaction(
	ctx context.Context, r *apiv1.ProposeCompactionRequest,
) (*apiv1.ProposeCompactionResponse, error) {
	return reply[*apiv1.ProposeCompactionResponse](ctx, m, r)
}

func (m *manager) ListCompactions(
	ctx context.Context, r *apiv1.ListCompactionsRequest,
) (*apiv1.ListCompactionsResponse, error) {
	return reply[*apiv1.ListCompactionsResponse](ctx, m, r)
}

func (m *manager) GetCompaction(
	ctx context.Context, r *apiv1.GetCompactionRequest,
) (*apiv1.GetCompactionResponse, error) {
	return reply[*apiv1.GetCompactionResponse](ctx, m, r)
}

func (m *manager) UpdateCompaction(
	ctx context.Context, r *apiv1.UpdateCompactionRequest,
) (*apiv1.UpdateCompactionResponse, error) {
	return reply[*apiv1.UpdateCompactionResponse](ctx, m, r)
}

func (m *manager) UndoCompaction(
	ctx context.Context, r *apiv1.UndoCompactionRequest,
) (*apiv1.UndoCompactionResponse, error) {
	return reply[*apiv1.UndoCompactionResponse](ctx, m, r)
}

func (m *manager) UpdateMessage(
	ctx context.Context, r *apiv1.UpdateMessageRequest,
) (*apiv1.UpdateMessageResponse, error) {
	return reply[*apiv1.UpdateMessageResponse](ctx, m, r)
}

func (m *manager) ListInvocations(ctx context.Context,
	r *apiv1.ListInvocationsRequest,
) (*apiv1.ListInvocationsResponse, error) {
	return reply[*apiv1.ListInvocationsResponse](ctx, m, r)
}

func (m *manager) ListSessionPrompts(ctx context.Context,
	r *apiv1.ListSessionPromptsRequest,
) (*apiv1.ListSessionPromptsResponse, error) {
	return reply[*apiv1.ListSessionPromptsResponse](ctx, m, r)
}

func (m *manager) GetInvocation(
	ctx context.Context, r *apiv1.GetInvocationRequest,
) (*apiv1.GetInvocationResponse, error) {
	return reply[*apiv1.GetInvocationResponse](ctx, m, r)
}

func (m *manager) CancelInvocation(ctx context.Context,
	r *apiv1.CancelInvocationRequest,
) (*apiv1.CancelInvocationResponse, error) {
	return reply[*apiv1.CancelInvocationResponse](ctx, m, r)
}

func (m *manager) GetApproval(ctx context.Context, r *apiv1.GetApprovalRequest) (*apiv1.GetApprovalResponse, error) {
	return reply[*apiv1.GetApprovalResponse](ctx, m, r)
}

func (m *manager) AnswerApproval(
	ctx context.Context, r *apiv1.AnswerApprovalRequest,
) (*apiv1.AnswerApprovalResponse, error) {
	return reply[*apiv1.AnswerApprovalResponse](ctx, m, r)
}

func (m *manager) CancelRun(ctx context.Context, r *apiv1.CancelRunRequest) (*apiv1.CancelRunResponse, error) {
	return reply[*apiv1.CancelRunResponse](ctx, m, r)
}

func (m *manager) QueryAudit(ctx context.Context, r *apiv1.QueryAuditRequest) (*apiv1.QueryAuditResponse, error) {
	return reply[*apiv1.QueryAuditResponse](ctx, m, r)
}

// RecordAudit keeps the records.
func (m *manager) RecordAudit(
	_ context.Context, r *sessionmanagerv1.RecordAuditRequest,
) (*sessionmanagerv1.RecordAuditResponse, error) {
	m.with(func() { m.records = append(m.records, r) })
	m.recorded <- struct{}{}
	return &sessionmanagerv1.RecordAuditResponse{}, nil
}

// audited waits for the record of a request.
func (m *manager) audited(t *testing.T, requestID string) *sessionmanagerv1.RecordAuditRequest {
	t.Helper()
	for {
		var found *sessionmanagerv1.RecordAuditRequest
		m.with(func() {
			for _, r := range m.records {
				if r.GetRequestId() == requestID {
					found = r
				}
			}
		})
		if found != nil {
			return found
		}
		select {
		case <-m.recorded:
		case <-t.Context().Done():
			t.Fatal("no audit record came")
		}
	}
}

// GetOperator answers the test's operator.
func (m *manager) GetOperator(
	context.Context, *sessionmanagerv1.GetOperatorRequest,
) (*sessionmanagerv1.GetOperatorResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.operator, nil
}

// GetAuthEpoch returns the secret.
func (m *manager) GetAuthEpoch(
	context.Context, *sessionmanagerv1.GetAuthEpochRequest,
) (*sessionmanagerv1.GetAuthEpochResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &sessionmanagerv1.GetAuthEpochResponse{Secret: m.secret}, m.noSecret
}

// RotateAuthEpoch makes a new secret.
func (m *manager) RotateAuthEpoch(
	context.Context, *sessionmanagerv1.RotateAuthEpochRequest,
) (*sessionmanagerv1.RotateAuthEpochResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.secret = []byte(rand.Text())
	return &sessionmanagerv1.RotateAuthEpochResponse{Secret: m.secret}, nil
}

// IssueLaunchToken makes a token.
func (m *manager) IssueLaunchToken(
	context.Context, *sessionmanagerv1.IssueLaunchTokenRequest,
) (*sessionmanagerv1.IssueLaunchTokenResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token := rand.Text()
	m.tokens[token] = true
	return &sessionmanagerv1.IssueLaunchTokenResponse{Token: token}, nil
}

// ConsumeLaunchToken uses a token up.
func (m *manager) ConsumeLaunchToken(
	_ context.Context, r *sessionmanagerv1.ConsumeLaunchTokenRequest,
) (*sessionmanagerv1.ConsumeLaunchTokenResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.tokens[r.GetToken()] {
		return nil, fault.New(fault.Unauthenticated, "The token is not valid.").With("reason", "invalid_launch_token")
	}
	delete(m.tokens, r.GetToken())
	return &sessionmanagerv1.ConsumeLaunchTokenResponse{}, nil
}

// held is an Attach that was let in.
type held struct {
	end    chan *sessionmanagerv1.AttachEnded
	wanted chan struct{}
}

// Attach holds a session as the real one does.
func (m *manager) Attach(
	r *sessionmanagerv1.AttachRequest, stream grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent],
) error {
	id := r.GetSessionId()
	h := &held{end: make(chan *sessionmanagerv1.AttachEnded, 1), wanted: make(chan struct{}, 1)}
	if err := m.hold(r, h); err != nil {
		return err
	}
	defer func() {
		m.with(func() {
			if m.holds[id] == h {
				delete(m.holds, id)
			}
		})
		m.released <- id
	}()
	seqs := map[string]int64{}
	m.with(func() {
		for name, seq := range m.seqs[id] {
			seqs[name] = seq
		}
	})
	attached := &sessionmanagerv1.AttachEvent{
		Event: &sessionmanagerv1.AttachEvent_Attached{Attached: &sessionmanagerv1.Attached{ServerSeq: seqs}},
	}
	if err := stream.Send(attached); err != nil {
		return err
	}
	m.attaches <- id
	for {
		done, err := h.event(stream)
		if done {
			return err
		}
	}
}

// event passes the next event to the hold, and reports whether it is over.
func (h *held) event(stream grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent]) (done bool, err error) {
	select {
	case <-h.wanted:
		wanted := &sessionmanagerv1.AttachEvent_Wanted{Wanted: &sessionmanagerv1.AttachWanted{}}
		return false, stream.Send(&sessionmanagerv1.AttachEvent{Event: wanted})
	case ended := <-h.end:
		if ended == nil { // lost, as by a crash
			return true, fault.New(fault.Unavailable, "The process is gone.")
		}
		return true, stream.Send(&sessionmanagerv1.AttachEvent{Event: &sessionmanagerv1.AttachEvent_Ended{Ended: ended}})
	case <-stream.Context().Done():
		return true, stream.Context().Err()
	}
}

// want tells the hold of a session that another socket asks for it.
func (m *manager) want(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds[id].wanted <- struct{}{}
}

func (m *manager) hold(r *sessionmanagerv1.AttachRequest, h *held) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := r.GetSessionId()
	switch _, exists := m.seqs[id]; {
	case !exists:
		return fault.New(fault.NotFound, "There is no session %s.", id)
	case m.ended[id]:
		return fault.New(fault.Gone, "The session has ended.")
	case m.notReady != nil:
		return m.notReady
	}
	if old := m.holds[id]; old != nil {
		if !r.GetTakeover() {
			return fault.New(fault.SessionAttached, "Another socket holds the session.")
		}
		old.end <- &sessionmanagerv1.AttachEnded{Code: "replaced", Reason: "Another client has attached."}
	}
	m.holds[id] = h
	return nil
}

// end ends the hold of a session; nil is a loss.
func (m *manager) end(id string, ended *sessionmanagerv1.AttachEnded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.holds[id]; h != nil {
		delete(m.holds, id)
		h.end <- ended
	}
}

func (m *manager) ListIssues(ctx context.Context, r *apiv1.ListIssuesRequest) (*apiv1.ListIssuesResponse, error) {
	return reply[*apiv1.ListIssuesResponse](ctx, m, r)
}

func (m *manager) CreateIssue(ctx context.Context, r *apiv1.CreateIssueRequest) (*apiv1.CreateIssueResponse, error) {
	return reply[*apiv1.CreateIssueResponse](ctx, m, r)
}

func (m *manager) GetIssue(ctx context.Context, r *apiv1.GetIssueRequest) (*apiv1.GetIssueResponse, error) {
	return reply[*apiv1.GetIssueResponse](ctx, m, r)
}

func (m *manager) UpdateIssue(ctx context.Context, r *apiv1.UpdateIssueRequest) (*apiv1.UpdateIssueResponse, error) {
	return reply[*apiv1.UpdateIssueResponse](ctx, m, r)
}

func (m *manager) ListIssueUpdates(ctx context.Context,
	r *apiv1.ListIssueUpdatesRequest,
) (*apiv1.ListIssueUpdatesResponse, error) {
	return reply[*apiv1.ListIssueUpdatesResponse](ctx, m, r)
}

func (m *manager) AddIssueUpdate(
	ctx context.Context, r *apiv1.AddIssueUpdateRequest,
) (*apiv1.AddIssueUpdateResponse, error) {
	return reply[*apiv1.AddIssueUpdateResponse](ctx, m, r)
}

func (m *manager) ListIssueTodos(
	ctx context.Context, r *apiv1.ListIssueTodosRequest,
) (*apiv1.ListIssueTodosResponse, error) {
	return reply[*apiv1.ListIssueTodosResponse](ctx, m, r)
}

func (m *manager) AddIssueTodos(
	ctx context.Context, r *apiv1.AddIssueTodosRequest,
) (*apiv1.AddIssueTodosResponse, error) {
	return reply[*apiv1.AddIssueTodosResponse](ctx, m, r)
}

func (m *manager) UpdateIssueTodo(ctx context.Context,
	r *apiv1.UpdateIssueTodoRequest,
) (*apiv1.UpdateIssueTodoResponse, error) {
	return reply[*apiv1.UpdateIssueTodoResponse](ctx, m, r)
}
