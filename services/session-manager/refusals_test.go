package sessionmanager

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// call calls an RPC such as SessionService.GetRun with a request in JSON, and returns its error.
func (n *node) call(ctx context.Context, method, request string) error {
	n.w.t.Helper()
	name := protoreflect.FullName("kaged.sessionmanager.v1." + method)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		n.w.t.Fatal(err)
	}
	m := found.(protoreflect.MethodDescriptor)
	in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		n.w.t.Fatal(err)
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		n.w.t.Fatal(err)
	}
	req := in.New().Interface()
	if err := wirejson.Unmarshal([]byte(request), req); err != nil {
		n.w.t.Fatalf("%s %s: %v", method, request, err)
	}
	path := "/kaged.sessionmanager.v1." + strings.Replace(method, ".", "/", 1)
	return rpc.FromStatus(n.conn.Invoke(ctx, path, req, out.New().Interface()))
}

// rejected is a request of an operator and the code of its refusal. ID is replaced by the session.
type rejected struct {
	method, request string
	want            fault.Code
}

func (n *node) refuses(ctx context.Context, session string, list []rejected) {
	n.w.t.Helper()
	for _, r := range list {
		err := n.call(ctx, r.method, strings.ReplaceAll(r.request, "ID", session))
		if got := fault.CodeOf(err); err == nil || got != r.want {
			n.w.t.Errorf("%s %.80s: %v, want %s", r.method, r.request, err, r.want)
		}
	}
}

// Another operator's project and session are not_found on every route that names one, as if they did not exist
// (A-ERR-CODE-04).
func TestAnothersThingsAreNotFound(t *testing.T) {
	t.Parallel()
	n := newWorld(t).start("a")
	s := n.session("ada")
	var list []rejected
	for _, method := range strings.Fields(`DslService.GetDsl DslService.GetSynthesizedDsl DslService.GetUnresolved
		DslService.ListPrompts ProjectService.GetProject ProjectService.GetProjectApproval
		ProjectService.GetProjectCapabilities ProjectService.ListProjectAgents ProjectService.ListProjectFiles
		ProjectService.ReloadProject LogService.ListProjectLogs`) {
		list = append(list, rejected{method, `{"id":"music"}`, fault.NotFound})
	}
	for _, method := range strings.Fields(`DiscardQueued GetContextEstimate GetLedger ListCompactions ResumeSession
		ListSessionPrompts ListSessionChanges CompactSession ListProcesses`) {
		list = append(list, rejected{"SessionService." + method, `{"session_id":"ID"}`, fault.NotFound})
	}
	list = append(list,
		rejected{"DslService.GetPrompt", `{"id":"music","name":"prompt.md"}`, fault.NotFound},
		rejected{"DslService.InitSubagent", `{"id":"music","path":"agents/x"}`, fault.NotFound},
		rejected{"DslService.PutDsl", `{"id":"music","dsl":"version: 1\nproject: music\n"}`, fault.NotFound},
		rejected{"DslService.PutPrompt", `{"id":"music","name":"prompt.md","text":"Be rude."}`, fault.NotFound},
		rejected{"DslService.UpdateProject", `{"id":"music","label":"mine"}`, fault.NotFound},
		rejected{"ProjectService.GetProjectFile", `{"id":"music","path":"prompt.md"}`, fault.NotFound},
		rejected{"ProjectService.ListLanguageServers", `{"project_id":"music"}`, fault.NotFound},
		rejected{"ProjectService.RestartLanguageServers", `{"project_id":"music"}`, fault.NotFound},
		rejected{"ProjectService.UnregisterProject", `{"id":"music","confirm":true}`, fault.NotFound},
		rejected{"ProjectService.LoadProject", `{"path":"/nonexistent"}`, fault.NotFound},
		rejected{"SessionService.UndoCompaction", `{"session_id":"ID","compaction_id":"cmp_1"}`, fault.NotFound},
		rejected{"SessionService.UpdateCompaction", `{"session_id":"ID","compaction_id":"c","notes":"n"}`, fault.NotFound},
		rejected{"TokenService.RevokeToken", `{"id":"` + ident.New() + `"}`, fault.NotFound},
	)
	n.refuses(as(t, "eve"), s, list)
	if _, err := n.Projects.GetProject(as(t, "ada"), &apiv1.GetProjectRequest{Id: "music"}); err != nil {
		t.Error(err)
	}
}

// What would change an ended session is gone.
func TestAnEndedSessionIsGone(t *testing.T) {
	t.Parallel()
	n := newWorld(t).start("a")
	s := n.session("ada")
	message := n.post("ada", s, "hello")
	n.run("ada", s, message.GetRunId())
	if _, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true}); err != nil {
		t.Fatal(err)
	}
	n.refuses(as(t, "ada"), s, []rejected{
		{"SessionService.CompactSession", `{"session_id":"ID"}`, fault.Gone},
		{"SessionService.ControlDebug", `{"session_id":"ID","action":"pause"}`, fault.Gone},
		{"SessionService.DiscardQueued", `{"session_id":"ID"}`, fault.Gone},
		{"SessionService.ResumeSession", `{"session_id":"ID"}`, fault.Gone},
		{"SessionService.SignalProcess", `{"session_id":"ID","process_id":"p","signal":"SIGTERM"}`, fault.Gone},
		{
			"SessionService.UpdateMessage", `{"session_id":"ID","message_id":"` + message.GetId() + `","always_keep":true}`,
			fault.Gone,
		},
	})
}

// Malformed requests of an operator's own things are refused with the promised code, and change nothing.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	n := newWorld(t).start("a")
	s := n.session("ada")
	big := strings.Repeat("a", 2<<20)
	n.refuses(as(t, "ada"), s, []rejected{
		{"AuditService.QueryAudit", `{"limit":-1}`, fault.ValidationFailed},
		{"DslService.InitSubagent", `{"id":"music"}`, fault.ValidationFailed},
		{"DslService.InitSubagent", `{"id":"music","path":"../x"}`, fault.ValidationFailed},
		{"DslService.PutDsl", `{"id":"music"}`, fault.ValidationFailed},
		{"DslService.PutDsl", `{"id":"music","dsl":"` + big + `"}`, fault.PayloadTooLarge},
		{"DslService.PutPrompt", `{"id":"music","name":"prompt.md"}`, fault.ValidationFailed},
		{"DslService.PutPrompt", `{"id":"music","name":"prompt.md","text":"` + big + `"}`, fault.PayloadTooLarge},
		{"DslService.UpdateProject", `{"id":"music","label":"` + big[:81] + `"}`, fault.ValidationFailed},
		{"DslService.ValidateDsl", `{}`, fault.ValidationFailed},
		{"DslService.ValidateDsl", `{"dsl":"` + big + `"}`, fault.PayloadTooLarge},
		{"ProjectService.LoadProject", `{"path":"music"}`, fault.ValidationFailed},
		{"ProjectService.UnregisterProject", `{"id":"music"}`, fault.BadRequest},
		{"TokenService.CreateToken", `{"name":"","scope":"run"}`, fault.ValidationFailed},
		{"TokenService.CreateToken", `{"name":"` + big[:81] + `","scope":"run"}`, fault.ValidationFailed},
	})
	if err := n.call(as(t, "ada"), "TokenService.CreateToken", `{"name":"ci","scope":"run"}`); err != nil {
		t.Fatal(err)
	}
	n.refuses(as(t, "ada"), s, []rejected{{"TokenService.CreateToken", `{"name":"ci","scope":"read"}`, fault.Conflict}})
}

// A project without one of its prompts, or with a file that does not compile, is told as such.
func TestABrokenProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	if err := os.Remove(filepath.Join(w.project, "prompt.md")); err != nil {
		t.Fatal(err)
	}
	n.refuses(as(t, "ada"), s, []rejected{
		{"SessionService.CompactSession", `{"session_id":"ID"}`, fault.ProjectNotReady},
		{"SessionService.GetContextEstimate", `{"session_id":"ID"}`, fault.ProjectNotReady},
		{"SessionService.ListSessionPrompts", `{"session_id":"ID"}`, fault.ProjectNotReady},
	})
	w.write(dsl.ProjectFile, "version: 1\nproject: music\nprimary: 7\n")
	n.refuses(as(t, "ada"), s, []rejected{
		{"ProjectService.LoadProject", `{"path":"` + w.project + `"}`, fault.DSLInvalid},
		{"ProjectService.GetProjectApproval", `{"id":"music"}`, fault.DSLInvalid},
	})
}
