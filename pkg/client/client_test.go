package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// A method fills its route: fields named in the path go there, the others into the query or the body, without unset
// fields. The answer is read from the whole body or from the field in the body's place.
func TestCalls(t *testing.T) {
	f := newFake()
	c := f.open(t)
	f.answers["POST /api/v1/projects/a%20b/sessions"] = `{"id":"01S","state":"idle","name":"one"}`
	f.answers["GET /api/v1/sessions?limit=2&q=two+words"] = `{"items":[],"next_cursor":null,"has_more":false}`
	f.answers["GET /api/v1/projects/p/prompts/sub/agent%20x.md"] = `{"name":"sub/agent x.md","content":"text"}`
	f.answers["POST /api/v1/sessions/01S/messages"] = `{"id":"01M","run_id":"01R","accepted_at":5}`
	ctx := t.Context()
	made, err := c.CreateSession(ctx, &apiv1.CreateSessionRequest{ProjectId: "a b", Name: "one"})
	idle := apiv1.SessionState_SESSION_STATE_IDLE
	if err != nil || made.GetId() != "01S" || made.GetState() != idle {
		t.Errorf("created %v, %v", made, err)
	}
	if _, err := c.ListSessions(ctx, &apiv1.ListSessionsRequest{ProjectId: "p", Limit: 2}); err == nil {
		t.Error("a list without an answer came")
	}
	search := &apiv1.SearchSessionsRequest{Limit: 2, Q: proto.String("two words")}
	if _, err := c.SearchSessions(ctx, search); err != nil {
		t.Error(err)
	}
	prompt, err := c.GetPrompt(ctx, &apiv1.GetPromptRequest{Id: "p", Name: "sub/agent x.md"})
	if err != nil {
		t.Errorf("prompt %v, %v", prompt, err)
	}
	posted, err := c.PostMessage(ctx, &apiv1.PostMessageRequest{SessionId: "01S", Content: proto.String("go")})
	if err != nil || posted.GetRunId() != "01R" {
		t.Errorf("posted %v, %v", posted, err)
	}
	want := []string{
		`POST /api/v1/projects/a%20b/sessions {"name":"one"}`, `GET /api/v1/projects/p/sessions?limit=2 ""`,
		`GET /api/v1/sessions?limit=2&q=two+words ""`, `GET /api/v1/projects/p/prompts/sub/agent%20x.md ""`,
		`POST /api/v1/sessions/01S/messages {"content":"go"}`,
	}
	if !slices.Equal(f.asked, want) {
		t.Errorf("asked %q, want %q", f.asked, want)
	}
}

// A refusal is returned as the API's error; a name that is invalid in a path is refused before the request; a project
// file with errors is an answer.
func TestRefusals(t *testing.T) {
	f := newFake()
	c := f.open(t)
	_, err := c.GetSession(t.Context(), &apiv1.GetSessionRequest{Id: "01S"})
	if !errors.Is(err, fault.NotFound) || fault.From(err).Details["x"] != 1.0 || fault.From(err).HTTP != 404 {
		t.Errorf("got %v", err)
	}
	for _, id := range []string{"", ".", "..", "a/b"} {
		_, err := c.GetSession(t.Context(), &apiv1.GetSessionRequest{Id: id})
		if !errors.Is(err, fault.ValidationFailed) {
			t.Errorf("%q: %v", id, err)
		}
	}
	const route = "POST /api/v1/dsl/validate"
	f.answers[route], f.status[route] = `{"valid":false,"error":{"code":"dsl_invalid","message":"No."}}`, 422
	valid, err := c.ValidateDsl(t.Context(), &apiv1.ValidateDslRequest{Dsl: proto.String("x")})
	if err != nil || valid.GetValid() {
		t.Errorf("validated %v, %v", valid, err)
	}
	f.answers["GET /api/v1/sessions/01T"] = `{"id":5}`
	if _, err := c.GetSession(t.Context(), &apiv1.GetSessionRequest{Id: "01T"}); !errors.Is(err, fault.Internal) {
		t.Errorf("an answer of another form: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.GetSession(ctx, &apiv1.GetSessionRequest{Id: "01S"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	f.Server.Close()
	if _, err := c.GetSession(t.Context(), &apiv1.GetSessionRequest{Id: "01S"}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a daemon that is away: %v", err)
	}
}

// Items yields the items of all pages in order and fetches a page when it is needed; an error is the last value.
func TestItems(t *testing.T) {
	f := newFake()
	c := f.open(t)
	f.answers["GET /api/v1/projects/p/sessions?limit=2"] = `{"items":[{"id":"1"},{"id":"2"}],"next_cursor":"x"}`
	f.answers["GET /api/v1/projects/p/sessions?cursor=x&limit=2"] = `{"items":[{"id":"3"}],"next_cursor":"y"}`
	request := &apiv1.ListSessionsRequest{ProjectId: "p", Limit: 2}
	var got []string
	var last error
	for session, err := range client.Items(t.Context(), c.ListSessions, request) {
		if last = err; err == nil {
			got = append(got, session.GetId())
		}
	}
	if !slices.Equal(got, []string{"1", "2", "3"}) || !errors.Is(last, fault.NotFound) {
		t.Errorf("got %v, %v", got, last)
	}
	f.asked = nil
	for range client.Items(t.Context(), c.ListSessions, request) {
		break
	}
	if len(f.asked) != 1 {
		t.Errorf("asked %q for one item", f.asked)
	}
}
