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
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// manager is a fake session-manager. It answers as a test has set, and stores the requests.
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
	sessionmanagerv1.UnimplementedAdminServiceServer
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
	recorded  chan struct{} // receives a value for each record
	operator  *sessionmanagerv1.GetOperatorResponse
	notReady  error
	holds     map[string]*held
	seqs      map[string]map[string]int64 // by session and channel
	ended     map[string]bool
	terminals map[string]string // the session of each background process
	// rates answers TakeTokens. If it is nil, TakeTokens fails.
	rates    func(*sessionmanagerv1.TakeTokensRequest) *sessionmanagerv1.TakeTokensResponse
	typed    []*sessionmanagerv1.RecordTerminalInputRequest
	untyped  error       // the error of RecordTerminalInput
	attaches chan string // receives the session of each granted Attach
	released chan string // receives the session of each hold that has ended
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

// issueService is a fake of the service issue, with the manager's answers.
type issueService struct{ *manager }

func (s issueService) Register(r grpc.ServiceRegistrar) {
	issuev1.RegisterIssueServiceServer(answering{r, s.manager}, s.manager)
}

func (m *manager) issues() host.Module {
	return host.Module{Name: "issue", New: func(*host.Env) (host.Service, error) { return issueService{m}, nil }}
}

// CheckProject knows every project but "unknown", and every workflow but "undeclared".
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
func (m *manager) Register(to grpc.ServiceRegistrar) {
	r := answering{to, m}
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
	sessionmanagerv1.RegisterAdminServiceServer(r, m)
}

// Run implements host.Service.
func (m *manager) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Ready implements host.Readier.
func (m *manager) Ready(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.notReady
}

// with runs change while no call reads the manager.
func (m *manager) with(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// replies sets the answer to all RPCs with a route: reply, or err. It also clears the stored requests.
func (m *manager) replies(reply proto.Message, err error) {
	m.with(func() {
		m.asked, m.callers = nil, nil
		m.answer = func(context.Context, proto.Message) (proto.Message, error) { return reply, err }
	})
}

// AuthenticateToken returns the tokens of api.
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

// TakeTokens calls rates, or fails with unavailable.
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

// RecordAudit stores the records.
func (m *manager) RecordAudit(
	_ context.Context, r *sessionmanagerv1.RecordAuditRequest,
) (*sessionmanagerv1.RecordAuditResponse, error) {
	m.with(func() { m.records = append(m.records, r) })
	m.recorded <- struct{}{}
	return &sessionmanagerv1.RecordAuditResponse{}, nil
}

// audited waits for the audit record of a request and returns it.
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

// GetOperator returns the test's operator.
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

// RotateAuthEpoch replaces the secret.
func (m *manager) RotateAuthEpoch(
	context.Context, *sessionmanagerv1.RotateAuthEpochRequest,
) (*sessionmanagerv1.RotateAuthEpochResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.secret = []byte(rand.Text())
	return &sessionmanagerv1.RotateAuthEpochResponse{Secret: m.secret}, nil
}

// IssueLaunchToken returns a new token.
func (m *manager) IssueLaunchToken(
	context.Context, *sessionmanagerv1.IssueLaunchTokenRequest,
) (*sessionmanagerv1.IssueLaunchTokenResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token := rand.Text()
	m.tokens[token] = true
	return &sessionmanagerv1.IssueLaunchTokenResponse{Token: token}, nil
}

// ConsumeLaunchToken removes a token.
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

// held is a granted Attach.
type held struct {
	end    chan *sessionmanagerv1.AttachEnded
	wanted chan struct{}
}

// Attach holds a session like the real session-manager.
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

// event sends the hold's next event, and reports whether the hold is over.
func (h *held) event(stream grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent]) (done bool, err error) {
	select {
	case <-h.wanted:
		wanted := &sessionmanagerv1.AttachEvent_Wanted{Wanted: &sessionmanagerv1.AttachWanted{}}
		return false, stream.Send(&sessionmanagerv1.AttachEvent{Event: wanted})
	case ended := <-h.end:
		if ended == nil { // the hold is lost, as by a crash
			return true, fault.New(fault.Unavailable, "The process is gone.")
		}
		return true, stream.Send(&sessionmanagerv1.AttachEvent{Event: &sessionmanagerv1.AttachEvent_Ended{Ended: ended}})
	case <-stream.Context().Done():
		return true, stream.Context().Err()
	}
}

// want tells the holder of a session that another socket asks for it.
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

// end ends the hold of a session. A nil ended simulates a crash.
func (m *manager) end(id string, ended *sessionmanagerv1.AttachEnded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.holds[id]; h != nil {
		delete(m.holds, id)
		h.end <- ended
	}
}
