package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit/bustest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// CountRunning returns one running session for every operator.
func (m *manager) CountRunning(ctx context.Context, _ *apiv1.CountRunningRequest) (*apiv1.CountRunningResponse, error) {
	owner := ident.CallerFrom(ctx).UserID
	return &apiv1.CountRunningResponse{Version: 5, Count: &apiv1.RunningCount{
		Total: 1, PerProject: map[string]int32{"p": 1}, PerOperator: map[string]int32{owner: 1},
		Limits: &apiv1.RunningLimits{PerProject: 4, PerOperator: 16},
	}}, nil
}

// systemSocket is a client's end of a system socket.
type systemSocket struct {
	t    *testing.T
	conn *websocket.Conn
}

func (c *client) systemSocket(t *testing.T) *systemSocket {
	t.Helper()
	header := http.Header{"X-Kaged-CSRF": {c.cookie("kaged_csrf")}}
	dialer := websocket.Dialer{Subprotocols: []string{"kaged.v1"}, Jar: c.http.Jar}
	conn, resp, err := dialer.DialContext(
		t.Context(), "ws"+strings.TrimPrefix(c.d.base, "http")+"/api/v1/socket", header,
	)
	if err != nil {
		t.Fatal(err, resp)
	}
	resp.Body.Close()
	t.Cleanup(func() { conn.Close() })
	return &systemSocket{t, conn}
}

// userID returns the user id of the signed-in client.
func (c *client) userID() string {
	c.d.t.Helper()
	var me struct {
		UserID string `json:"user_id"`
	}
	if err := json.Unmarshal([]byte(c.get("/api/v1/me").body), &me); err != nil || me.UserID == "" {
		c.d.t.Fatal("nobody is signed in:", err)
	}
	return me.UserID
}

func (s *systemSocket) next() string {
	s.t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, data, err := s.conn.ReadMessage()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// tell publishes a notice as session-manager and the service issue do.
func tell(t *testing.T, nats *bustest.Private, subject string, m proto.Message) {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{InProcess: nats})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	data, err := proto.Marshal(m)
	if err == nil {
		err = conn.Notify(t.Context(), subject, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each system socket of an operator, at any gateway, gets hello and the count first and then the operator's
// notices, with its own numbers. Outdated counts and notices of other operators are left out (A-SYS-01 to A-SYS-06,
// A-SYS-09). A violation and a stop are told by closing (A-SYS-10).
func TestSystemSocket(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	var sockets []*systemSocket
	var owner string
	var d *daemon
	for range 2 {
		d = start(t, setup{config: quick(nil), nats: nats}).ready()
		c := d.operator()
		owner = c.userID()
		sockets = append(sockets, c.systemSocket(t), c.systemSocket(t))
	}
	count := fmt.Sprintf(`{"channel":"system","seq":2,"type":"sessions.running_count","payload":{"total":1,`+
		`"per_project":{"p":1},`+
		`"per_operator":{%q:1},"limits":{"per_project":4,"per_operator":16}}}`, owner)
	for _, s := range sockets {
		if got := s.next(); !strings.HasPrefix(
			got, `{"channel":"system","seq":1,"type":"system.hello","payload":{"daemon_version":`,
		) {
			t.Error(got)
		}
		if got := s.next(); got != count {
			t.Errorf("got %s, want %s", got, count)
		}
	}
	notice := func(owner, kind, payload string, version int64) {
		tell(t, nats, bus.SystemSubject, &sessionmanagerv1.SystemNotice{
			OwnerUserId: owner, Type: kind, Payload: []byte(payload), Version: version,
		})
	}
	notice(owner, "sessions.running_count", `{"total":9}`, 4)
	notice("eve", "session.changed", `{"session_id":"hers"}`, 0)
	notice(owner, "session.changed", `{"session_id":"s"}`, 0)
	notice(owner, "sessions.running_count", `{"total":2}`, 6)
	everywhere := func(list ...string) {
		for _, s := range sockets {
			for _, want := range list {
				if got := s.next(); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		}
	}
	everywhere(`{"channel":"system","seq":3,"type":"session.changed","payload":{"session_id":"s"}}`,
		`{"channel":"system","seq":4,"type":"sessions.running_count","payload":{"total":2}}`)
	// Notices of issues have a subject of their own, so they are not in order with the others.
	tell(t, nats, "issues.changed", &issuev1.IssueChanged{OwnerUserId: owner, ProjectId: "p", Number: 7, Created: true})
	everywhere(`{"channel":"system","seq":5,"type":"issue.created","payload":{"project_id":"p","number":7}}`)
	if err := sockets[0].conn.WriteMessage(
		websocket.TextMessage, []byte(`{"channel":"control","type":"ping"}`),
	); err != nil {
		t.Fatal(err)
	}
	if got := sockets[0].next(); got != `{"channel":"control","seq":1,"type":"pong","payload":{}}` {
		t.Error(got)
	}
	if err := sockets[0].conn.WriteMessage(
		websocket.TextMessage, []byte(`{"channel":"system","type":"hello"}`),
	); err != nil {
		t.Fatal(err)
	}
	if got := sockets[0].next(); !strings.Contains(got, `"type":"closing"`) ||
		!strings.Contains(got, `"code":"policy_violation"`) {
		t.Error(got)
	}
	d.service().Drain(t.Context())
	if got := sockets[3].next(); !strings.Contains(got, `"type":"closing"`) ||
		!strings.Contains(got, `"code":"server_shutdown"`) {
		t.Error(got)
	}
}

// The upgrade needs sign-in, the CSRF token and a WebSocket handshake (A-SYS-01).
func TestSystemSocketRefusals(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	d.client().get("/api/v1/socket").refused(t, "a stranger", 401, "unauthenticated")
	c := d.operator()
	c.get("/api/v1/socket").refused(t, "no CSRF token", 403, "forbidden")
	c.header = http.Header{"X-Kaged-CSRF": {c.cookie("kaged_csrf")}}
	c.get("/api/v1/socket").refused(t, "no handshake", 400, "bad_request")
}
