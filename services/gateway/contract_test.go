package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/promises"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/gateway/internal/server"
)

// exchange is a request of a contract route, with the call that session-manager receives, its reply, and the answer
// to the client.
type exchange struct {
	route  string // METHOD /path, as in the contract
	method string
	path   string
	body   string
	asked  proto.Message
	reply  proto.Message
	status int
	want   string // the body of the answer
}

// emptyPage is the JSON of an empty page.
const emptyPage = `{"items":[],"next_cursor":null,"has_more":false}`

// contract has one exchange for each route of the contract but the administrators': the written one, or a sample.
func contract() []exchange {
	written := slices.Concat(
		dslContract(), consoleContract(), projectsContract(), issuesContract(), sessionsContract(), runsContract(),
		approvalsContract(), contextContract(),
	)
	return append(written, sampled(func(route string) bool {
		return !forAdministrators(route) && !slices.ContainsFunc(written, func(e exchange) bool { return e.route == route })
	})...)
}

// compacted is a compaction; compactedJSON is its JSON.
var compacted = &apiv1.SessionCompaction{
	Id: "cmp_1", SessionId: "01S", AgentPath: "primary", CreatedAt: 1, Trigger: "operator_manual", Strategy: "drop",
	ThresholdEstimate: 0.9, AfterEstimate: 0.5, SupersededCount: 2, Summary: "gone",
	Spans: []*apiv1.CompactionSpan{{MessageId: "01M", FromStep: 1, ToStep: 2}}, WindowTokens: 100, WindowUpper: 0.85,
	WindowLower: 0.6,
}

const compactedJSON = `{"id":"cmp_1","session_id":"01S","run_id":null,"agent_path":"primary","created_at":1,` +
	`"trigger":"operator_manual",` +
	`"strategy":"drop","threshold_estimate":0.9,"after_estimate":0.5,"superseded_count":2,"summary_message_id":null,` +
	`"summary":"gone",` +
	`"plugins_fired":[],"plugin_cost":null,"fallback_occurred":false,"fallback_reason":null,"operator_flag":null,` +
	`"operator_notes":null,` +
	`"spans":[{"message_id":"01M","from_step":1,"to_step":2}],"compactor_cost":null,"undone_at":null,` +
	`"window_tokens":100,` +
	`"window_upper":0.85,"window_lower":0.6,"duration_ms":0}`

// invocation is the invocation of a subagent; invocationJSON is its JSON.
var invocation = &apiv1.Invocation{
	InvocationId: "01I", RunId: "01R", ParentInvocationId: proto.String("01H"), ToolCallId: "c", Name: "writer",
	AgentPath: "p", State: "completed",
	CageStatus: "caged", Exit: proto.Int32(0), Steps: 1, TokensIn: 2, TokensOut: 3, CostUsd: proto.Float64(0.5),
	StartedAt: 1, EndedAt: proto.Int64(4),
	Prompt: "Write.", CagePolicy: &apiv1.InvocationCage{
		Fs:      []*apiv1.InvocationMount{{Mode: "ro", Path: "project:/"}},
		Seccomp: "default", State: "ephemeral",
	},
	Tools: []string{"file.read"},
}

const invocationJSON = `{"invocation_id":"01I","run_id":"01R","parent_invocation_id":"01H","tool_call_id":"c",` +
	`"name":"writer","agent_path":"p","state":"completed",` +
	`"cage_status":"caged","exit":0,"steps":1,"tokens_in":2,"tokens_out":3,"cost_usd":0.5,"started_at":1,"ended_at":4,` +
	`"error":null,"prompt":"Write.","output":"",` +
	`"cage_policy":{"fs":[{"mode":"ro","path":"project:/"}],"read_only":[],"net_allow":[],"seccomp":"default",` +
	`"capabilities":[],"state":"ephemeral","env":[],"git":""},` +
	`"tools":["file.read"],"files_changed":[],"run_steps":[]}`

// Every route of the contract has an exchange (A-TEST-01), and no exchange is of a route that is gone
// (A-URL-INDEX-01).
func TestContractIsCovered(t *testing.T) {
	t.Parallel()
	var here []string
	for _, e := range append(contract(), adminContract()...) {
		here = append(here, e.route)
	}
	routes := server.ContractRoutes()
	slices.Sort(here)
	slices.Sort(routes)
	if diff := cmp.Diff(routes, here); diff != "" {
		t.Errorf("contract -, tests +:\n%s", diff)
	}
}

// Every route answers each error that its RPC's comment promises, with the code and its status in the documented
// shape.
func TestPromisedErrors(t *testing.T) {
	t.Parallel()
	promised := map[protoreflect.FullName][]fault.Code{}
	for _, service := range []string{"kaged.sessionmanager.v1", "kaged.issue.v1"} {
		for method, codes := range promises.Of(service) {
			found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(method))
			if err != nil {
				t.Fatal(err)
			}
			promised[found.(protoreflect.MethodDescriptor).Input().FullName()] = codes
		}
	}
	d := start(t, setup{rateLimitsOff: true})
	c := d.operator()
	n := 0
	for _, e := range contract() {
		codes, known := promised[e.asked.ProtoReflect().Descriptor().FullName()]
		if !known {
			t.Errorf("%s: its RPC is not known", e.route)
		}
		for _, code := range codes {
			d.manager.replies(nil, fault.New(code, "Refused."))
			got := c.do(e.method, e.path, e.body)
			got.refused(t, e.route, server.Status(fault.New(code, "")), code.String())
			n++
		}
	}
	if n < 150 {
		t.Errorf("%d errors are promised; is the sentence of comments still \"Fails with\"?", n)
	}
}

// Every route forwards the client's request to session-manager with the operator's identity, and answers in the
// contract's shape (A-TEST-01, A-WIRE-CTYPE-02, A-WIRE-PAGE-01, A-MSG-POST-02, A-PROJ-LOAD-02, -03, A-SESS-NEW-01,
// A-HDR-OUT-04).
func TestContract(t *testing.T) {
	t.Parallel()
	start(t, setup{}).exchanges(t, contract())
}

// exchanges makes requests as an operator and compares the calls of session-manager and the answers.
func (d *daemon) exchanges(t *testing.T, list []exchange) {
	t.Helper()
	c := d.operator()
	for _, e := range list {
		d.manager.replies(e.reply, nil)
		got := c.do(e.method, e.path, e.body)
		if got.status != e.status {
			t.Errorf("%s: status %d, want %d: %s", e.route, got.status, e.status, got.body)
		}
		if diff := cmp.Diff(e.want, got.body); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", e.route, diff)
		}
		if ct, cc := got.header.Get("Content-Type"),
			got.header.Get("Cache-Control"); ct != "application/json; charset=utf-8" || cc != "no-store" {
			t.Errorf("%s: Content-Type %q, Cache-Control %q", e.route, ct, cc)
		}
		d.manager.with(func() {
			if len(d.manager.asked) != 1 {
				t.Fatalf("%s: session-manager was asked %d times", e.route, len(d.manager.asked))
			}
			if diff := cmp.Diff(e.asked, d.manager.asked[0], protocmp.Transform()); diff != "" {
				t.Errorf("%s: asked, want -, got +:\n%s", e.route, diff)
			}
			caller := d.manager.callers[0]
			if caller.UserID == "" || caller.AuthMode != "loopback" || caller.RequestID != got.header.Get("X-Kaged-Request-Id") {
				t.Errorf("%s: asked for %+v", e.route, caller)
			}
		})
	}
}

// A fault of session-manager reaches the client on every route, with its status, code and details (A-TEST-01,
// A-TEST-07).
func TestContractRefusals(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	for _, e := range contract() {
		d.manager.replies(nil, fault.New(fault.NotFound, "There is none.").With("path", "/p"))
		if r := c.do(e.method, e.path, e.body).refused(t, e.route, 404, "not_found"); r.Details["path"] != "/p" {
			t.Errorf("%s: details %v", e.route, r.Details)
		}
	}
	for _, f := range []struct {
		give   *fault.Error
		status int
		code   string
	}{
		{fault.New(fault.BadRequest, "m"), 400, "bad_request"}, // A-ERR-CODE-01
		{fault.New(fault.ValidationFailed, "m"), 400, "validation_failed"},
		{fault.New(fault.ValidationFailed, "m").WithHTTP(422), 422, "validation_failed"}, // A-CONTRA-04
		{fault.New(fault.Unauthenticated, "m"), 401, "unauthenticated"},
		{fault.New(fault.Forbidden, "m"), 403, "forbidden"},
		{fault.New(fault.Conflict, "m"), 409, "conflict"},
		{fault.New(fault.Gone, "m"), 410, "gone"},
		{fault.New(fault.DSLInvalid, "m"), 422, "dsl_invalid"},
		{fault.New(fault.RateLimited, "m").With("retry_after_ms", 1500), 429, "rate_limited"},
		{fault.New(fault.Internal, "m"), 500, "internal"},
		{fault.New(fault.ProviderUnreachable, "m").With("provider", "p"), 502, "provider_unreachable"},
		{fault.New(fault.Unavailable, "m").With("subsystem", "storage"), 503, "unavailable"}, // A-FAIL-02
		{fault.New(fault.DeadlineExceeded, "m"), 504, "deadline_exceeded"},
		{fault.New(fault.ProjectNotReady, "m"), 409, "project_not_ready"},
	} {
		d.manager.replies(nil, f.give)
		got := c.get("/api/v1/projects")
		got.refused(t, fmt.Sprint(f.give), f.status, f.code)
		want := map[int]string{429: "2", 503: "1"}[f.status]
		if after := got.header.Get("Retry-After"); after != want {
			t.Errorf("%s: Retry-After %q, want %q", f.code, after, want)
		}
	}
}

// Issues of an unregistered project are not_found, without a call of the service issue. If-Match is forwarded to
// that service.
func TestIssuesOfAProject(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.replies(&apiv1.ListIssuesResponse{}, nil)
	c.get("/api/v1/projects/unknown/issues").refused(t, "an unknown project", 404, "not_found")
	d.manager.with(func() {
		if len(d.manager.asked) != 0 {
			t.Errorf("the service was asked %v", d.manager.asked)
		}
		d.manager.answer = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
			if got := metadata.ValueFromIncomingContext(ctx, "if-match"); len(got) != 1 || got[0] != `"7"` {
				t.Errorf("got If-Match %q, want the client's", got)
			}
			return &apiv1.UpdateIssueResponse{Issue: &apiv1.Issue{}}, nil
		}
	})
	c.header = http.Header{"If-Match": {`"7"`}}
	if got := c.do("PATCH", "/api/v1/projects/p/issues/1", `{"title":"x"}`); got.status != 200 {
		t.Errorf("got %d: %s", got.status, got.body)
	}
}

// An issue can be assigned to declared workflows only; session-manager checks them. T-ISSUE-UPDATE-06.
func TestAssigningToAWorkflow(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.replies(&apiv1.UpdateIssueResponse{Issue: &apiv1.Issue{}}, nil)
	assign := func(to string) answer {
		return c.do("PATCH", "/api/v1/projects/p/issues/1", `{"assignment":"`+to+`"}`)
	}
	assign("workflow:undeclared").refused(t, "an undeclared workflow", 400, "validation_failed")
	for _, to := range []string{"workflow:nightly", "primary", "session:01S"} {
		if got := assign(to); got.status != 200 {
			t.Errorf("%s: got %d: %s", to, got.status, got.body)
		}
	}
}

// An operator's edit of an issue is recorded with the changed fields. A request that changes no field is not
// recorded. T-AUD-13.
func TestEditsOfIssuesAreRecorded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	edit := func(fields ...string) string {
		d.manager.replies(&apiv1.UpdateIssueResponse{Issue: &apiv1.Issue{
			Id: "01I", ProjectId: "p", Number: 3, UpdatedFields: fields,
		}}, nil)
		got := c.do("PATCH", "/api/v1/projects/p/issues/3", `{"title":"x"}`)
		if got.status != 200 {
			t.Fatalf("got %d: %s", got.status, got.body)
		}
		return got.header.Get("X-Kaged-Request-Id")
	}
	unchanged := edit()
	r := d.manager.audited(t, edit("title", "body"))
	p := r.GetRecords()[0].GetPayload().AsMap()
	if fields := fmt.Sprint(p["updated_fields"]); r.GetRecords()[0].GetEventType() != "kaged.issue.updated" ||
		p["issue_id"] != "01I" || p["project_id"] != "p" || p["number"] != 3.0 || fields != "[title body]" ||
		p["caller"] != r.GetUserId() || r.GetUserId() == "" {
		t.Errorf("recorded %v", r)
	}
	d.manager.with(func() {
		for _, r := range d.manager.records {
			if r.GetRequestId() == unchanged {
				t.Errorf("an edit that changed no field was recorded: %v", r)
			}
		}
	})
}

// Loading a project is answered with 201 only if the project is new and ready, and else with 200 (A-PROJ-LOAD-03,
// -04, -09).
func TestLoadStatus(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	for _, x := range []struct {
		created bool
		state   apiv1.ProjectState
		status  int
	}{
		{true, apiv1.ProjectState_PROJECT_STATE_READY, 201},
		{false, apiv1.ProjectState_PROJECT_STATE_READY, 200},
		{true, apiv1.ProjectState_PROJECT_STATE_PENDING, 200},
	} {
		d.manager.replies(&apiv1.LoadProjectResponse{
			Created: x.created, Project: &apiv1.RegisteredProject{State: x.state},
		}, nil)
		if got := c.do("POST", "/api/v1/projects/load", `{"path":"/p"}`); got.status != x.status {
			t.Errorf("created %v, %v: %d", x.created, x.state, got.status)
		}
	}
}
