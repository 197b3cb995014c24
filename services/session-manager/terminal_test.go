package sessionmanager

import (
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// A gateway learns the workspace of a background process only for the operator of its session. Terminal input is
// audited with control characters visible and secrets masked, and hidden input without its text.
func TestTerminals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, quiet := n.session("ada"), n.session("ada")
	w.tools.runs = []string{s}
	open := func(user, session, process string) (*sessionmanagerv1.OpenTerminalResponse, error) {
		req := &sessionmanagerv1.OpenTerminalRequest{SessionId: session, ProcessId: process}
		return n.Terminal.OpenTerminal(as(t, user), req)
	}
	found, err := open("ada", s, "p")
	if err != nil || found.GetTerminal().GetRunId() != "r" || found.GetTerminal().GetCommand() != "sleep 1" {
		t.Fatalf("found %v, %v", found, err)
	}
	if alone, err := open("ada", s, ""); err != nil || alone.GetTerminal() != nil {
		t.Errorf("the session alone: %v, %v", alone, err)
	}
	for _, x := range []struct {
		user, session, process string
		code                   fault.Code
	}{
		{"eve", s, "p", fault.NotFound},
		{"eve", s, "", fault.NotFound},
		{"ada", "nonsense", "p", fault.NotFound},
		{"ada", s, "other", fault.ProcessNotFound},
		{"ada", quiet, "p", fault.ProcessNotFound},
	} {
		_, err := open(x.user, x.session, x.process)
		refused(t, err, x.code)
	}
	record := func(user string, r *sessionmanagerv1.RecordTerminalInputRequest) error {
		r.SessionId, r.Terminal = s, found.GetTerminal()
		_, err := n.Terminal.RecordTerminalInput(as(t, user), r)
		return err
	}
	refused(t, record("eve", &sessionmanagerv1.RecordTerminalInputRequest{Input: []byte("x")}), fault.NotFound)
	huge := &sessionmanagerv1.RecordTerminalInputRequest{Input: make([]byte, 64<<10+1)}
	refused(t, record("ada", huge), fault.ValidationFailed)
	long := strings.Repeat("x", 60<<10)
	for _, r := range []*sessionmanagerv1.RecordTerminalInputRequest{
		{Input: []byte("export API_TOKEN=abc\r\x03\xff\x00"), Length: 24},
		{Hidden: true, Length: 9},
		{Input: []byte(long), Length: int64(len(long))},
	} {
		if err := record("ada", r); err != nil {
			t.Fatal(err)
		}
	}
	page, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "process.input"})
	if err != nil || len(page.GetItems()) != 3 {
		t.Fatalf("recorded %v, %v", page, err)
	}
	first, hidden, last := page.GetItems()[2], page.GetItems()[1], page.GetItems()[0]
	got := first.GetPayload().AsMap()
	if got["input"] != `export API_TOKEN=[masked]\r\x03\xff\x00` || got["process_id"] != "p" || got["bytes"] != 24.0 ||
		first.GetRunId() != "r" || first.GetAgentPath() != "primary" {
		t.Errorf("recorded %v", first)
	}
	if got := hidden.GetPayload().AsMap(); got["input"] != nil || got["hidden"] != true || got["bytes"] != 9.0 {
		t.Errorf("recorded of a hidden line: %v", hidden)
	}
	if got := last.GetPayload().AsMap()["input"].(string); len(got) > 5<<10 {
		t.Errorf("the text of a record has %d bytes", len(got))
	}
	if _, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true}); err != nil {
		t.Fatal(err)
	}
	_, err = open("ada", s, "p")
	refused(t, err, fault.Gone)
	refused(t, record("ada", &sessionmanagerv1.RecordTerminalInputRequest{Input: []byte("x")}), fault.Gone)
}
