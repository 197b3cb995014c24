package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/mtls/authority"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/certs"
	"kaged.dev/pkg/testkit/fakellm"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/test/e2e/kagedtest"
)

// nonce is the secret of the sign-in proxies.
const nonce = "a-nonce-of-the-sign-in-proxies"

// shared is a deployment of several operators: the control plane, and two workspaces, each with its own certificate,
// configuration and folder of projects.
type shared struct {
	*kagedtest.World
	ca        *certs.CA
	addresses map[string]string // by the name in the certificate without its suffix
	env       map[string][]string
	processes map[string]*kagedtest.Process
	gateway   string
}

var workspaceNames = []string{"one", "two"}

func startShared(t *testing.T, llm *fakellm.Server, keys string, ofGateway ...string) *shared {
	t.Helper()
	h := &shared{
		World: kagedtest.NewWorld(t, ""), ca: certs.New(t), addresses: map[string]string{}, env: map[string][]string{},
		processes: map[string]*kagedtest.Process{}, gateway: testkit.Address(),
	}
	system := fmt.Sprintf("[system]\nenabled = true\nadmin_group = \"kaged-admins\"\n%s", keys)
	table, stores := "", append(databaseEnv(t), "KAGED_NATS_URL="+natsURL(t))
	for _, name := range serviceNames {
		if !mtls.InWorkspace(name) {
			h.addresses[name] = testkit.Address()
			stores = append(stores, config.EnvName("services", name, "address")+"="+h.addresses[name])
			continue
		}
		for _, w := range workspaceNames {
			h.addresses[name+"."+w] = testkit.Address()
		}
	}
	for _, w := range workspaceNames {
		table += fmt.Sprintf("\n[[workspaces]]\nname = %q\naddress = %q\nsupervisor = %q\n", w,
			h.addresses["tool-runner."+w], h.addresses["sandbox-supervisor."+w])
		if err := os.MkdirAll(h.projects(w), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.Configure(t, fmt.Sprintf("%s\n%sprojects_root = %q\n%s", kagedtest.FakeModels(llm, "anthropic"), system,
		filepath.Join(h.Dir, "projects"), table))
	for id := range h.addresses {
		h.start(t, id, stores, system, ofGateway...)
	}
	h.ready(t)
	return h
}

// projects returns the folder of projects of a workspace.
func (h *shared) projects(workspace string) string {
	return filepath.Join(h.Dir, "projects", workspace)
}

func (h *shared) start(t *testing.T, id string, stores []string, system string, ofGateway ...string) {
	t.Helper()
	service, workspace, _ := strings.Cut(id, ".")
	env := append(append([]string{}, h.Env...), stores...)
	env = append(env, certs.Env(h.certificate(id))...)
	env = append(env, "KAGED_DATA_DIR="+filepath.Join(h.Dir, "data-"+id))
	if service == "gateway" {
		env = append(env, "KAGED_LISTEN="+h.gateway, "KAGED_SERVICES_GATEWAY_SIDECAR_NONCE_FILE="+h.nonceFile(t))
		env = append(env, ofGateway...)
	} else {
		env = append(env, config.EnvName("services", service, "listen")+"="+h.addresses[id])
	}
	if workspace != "" {
		file := filepath.Join(h.Dir, workspace+".toml")
		text := fmt.Sprintf("%s\nprojects_root = %q\n", system, h.projects(workspace))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		env = append(env, "KAGED_CONFIG="+file)
		for _, peer := range serviceNames {
			if mtls.InWorkspace(peer) {
				env = append(env, config.EnvName("services", peer, "address")+"="+h.addresses[peer+"."+workspace])
			}
		}
	}
	h.env[id] = env
	h.processes[id] = kagedtest.Command(t, service, env)
}

// nonceFile returns a file with the nonce.
func (h *shared) nonceFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(h.Dir, "nonce")
	if err := os.WriteFile(file, []byte(nonce+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (h *shared) certificate(id string) mtls.Files {
	service, workspace, _ := strings.Cut(id, ".")
	return h.ca.Sign(authority.Request{
		Identity: mtls.Identity{Service: service, Workspace: workspace}, Valid: time.Hour,
	})
}

// as connects to a service with the certificate of another; both are named as in addresses.
func (h *shared) as(t *testing.T, who, at string) *grpc.ClientConn {
	t.Helper()
	m, err := mtls.Load(h.certificate(who), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	service, workspace, _ := strings.Cut(at, ".")
	between := rpc.Between{
		TLS: m, Want: mtls.Identity{Service: service, Workspace: workspace}, CallTimeout: kagedtest.Limit,
	}
	conn, err := grpc.NewClient(h.addresses[at], between.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (h *shared) ready(t *testing.T) {
	t.Helper()
	for id := range h.addresses {
		if id == "gateway" {
			continue
		}
		health := grpc_health_v1.NewHealthClient(h.as(t, mtls.Debug, id))
		kagedtest.Eventually(t, id+" serves", func() bool {
			resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			return err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
		})
	}
	kagedtest.Eventually(t, "the gateway is ready", func() bool {
		resp, err := http.Get("http://" + h.gateway + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// signIn returns a client that signs in through a proxy as an operator with groups.
func (h *shared) signIn(t *testing.T, user string, groups ...string) *client.Client {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: h.gateway}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = target.Host
		r.Out.Header.Del("Origin")
		r.Out.Header.Set("X-Kaged-Auth-Nonce", nonce)
		r.Out.Header.Set("X-Kaged-User-Id", user)
		r.Out.Header.Set("X-Kaged-User-Groups", strings.Join(groups, ","))
	}})
	t.Cleanup(proxy.Close)
	c := kagedtest.Checked(t, client.New(proxy.URL))
	t.Cleanup(c.Close)
	if err := c.Bootstrap(t.Context()); err != nil {
		t.Fatalf("%s signs in: %v", user, err)
	}
	return c
}

// project copies the example project into a workspace.
func (h *shared) project(t *testing.T, workspace string) string {
	t.Helper()
	dir := filepath.Join(h.projects(workspace), "wordcount")
	if err := os.Rename(h.Project(t), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// route is a route of the API with its parameters.
type route struct{ method, path string }

var parameter = regexp.MustCompile(`\{[^}]+\}`)

// routes returns all routes in the description of the API.
func routes(t *testing.T, c *client.Client) (list []route) {
	t.Helper()
	api := kagedtest.Get[struct {
		Paths map[string]map[string]json.RawMessage
	}](t, c, "/api/v1/openapi.json")
	for path, methods := range api.Paths {
		for method := range methods {
			if m := strings.ToUpper(method); slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, m) {
				list = append(list, route{m, path})
			}
		}
	}
	slices.SortFunc(list, func(a, b route) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return list
}

// fill replaces the parameters of a path by ids. The part of the path before a parameter selects the id.
func (r route) fill(ids map[string]string) (path string, ok bool) {
	ok = true
	parts := strings.Split(r.path, "/")
	for i, part := range parts {
		if !parameter.MatchString(part) {
			continue
		}
		id, known := ids[parts[i-1]]
		if ok = ok && known; known {
			parts[i] = id
		}
	}
	return strings.Join(parts, "/"), ok
}

// body returns a valid body of a route, so that a refusal is because of the path.
func (r route) body(dir string) string {
	for suffix, text := range map[string]string{
		"/approvals/{approval_id}": `{"decision":"approve","hash":""}`, "/messages": `{"content":"hi"}`,
		"/messages/{message_id}": `{"always_keep":true}`, "/approve": `{"hash":"x"}`, "/debug": `{"action":"continue"}`,
		"/issues": `{"title":"x"}`, "/updates": `{"body":"x"}`, "/todos": `{"items":["x"]}`,
		"/signal":        `{"signal":"SIGTERM"}`,
		"/projects/load": fmt.Sprintf(`{"path":%q}`, dir), "/dsl": `{"dsl":"version: 1\n"}`,
		"/issues/{number}": `{"title":"y"}`, "/todos/{id}": `{"status":"completed"}`,
		"/prompts/{name}": `{"text":"x"}`, "/projects/{id}": `{"label":"x"}`, "/sessions/{id}": `{"label":"x"}`,
		"/compactions/{compaction_id}": `{"notes":"x"}`, "/limits": `{"limits":{"max_steps":3}}`,
		"/config": `{"document":"operator_name = \"Mallory\"\n"}`,
	} {
		if strings.HasSuffix(r.path, suffix) {
			return text
		}
	}
	return "{}"
}

// answer is an answer of the API without its request id.
type answer struct {
	status int
	body   string
}

var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// ask sends a request like a browser.
func ask(t *testing.T, c *client.Client, csrf, method, path, body string) answer {
	t.Helper()
	var in io.Reader
	if method != http.MethodGet && method != http.MethodDelete {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.BaseURL()+path, in)
	if err != nil {
		t.Fatal(err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("If-Match", "1")
	req.Header.Set("X-Kaged-Csrf", csrf)
	req.AddCookie(&http.Cookie{Name: "kaged_csrf", Value: csrf})
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	var head bytes.Buffer
	if _, err := io.CopyN(&head, resp.Body, 1<<20); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{resp.StatusCode, requestID.ReplaceAllString(head.String(), "")}
}

func csrfOf(t *testing.T, c *client.Client) string {
	t.Helper()
	return kagedtest.Get[struct {
		Token string `json:"csrf_token"`
	}](t, c, "/api/v1/me").Token
}

// secret is a text of ada's session that other operators must not read.
const secret = "the-word-that-ada-alone-knows"

// adasIDs creates one object for each kind of id in routes, and returns their ids by the part of a path before them.
func adasIDs(t *testing.T, h *shared, s *kagedtest.Session) map[string]string {
	t.Helper()
	kagedtest.Post[struct{ Number int64 }](t, s.Client, "/api/v1/projects/"+s.Project+"/issues",
		map[string]any{"title": secret})
	todo := kagedtest.Post[struct{ Items []struct{ ID string } }](t, s.Client,
		"/api/v1/projects/"+s.Project+"/issues/1/todos", map[string]any{"items": []string{secret}})
	token := kagedtest.Post[struct{ ID string }](t, s.Client, "/api/v1/tokens",
		map[string]any{"name": secret, "scope": "read"})
	if outcome := s.Run(t, secret); outcome != "completed" {
		t.Fatalf("ada's run %s", outcome)
	}
	run := s.Send(t, "now push")
	var asked struct {
		ApprovalID string `json:"approval_id"`
		ID         string `json:"id"`
		Approval   struct {
			ID string `json:"id"`
		} `json:"approval"`
	}
	kagedtest.Payload(t, s.Until(t, "approval.requested"), &asked)
	messages := kagedtest.Get[struct{ Items []struct{ ID string } }](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
	approval := config.Or(asked.ApprovalID, asked.ID, asked.Approval.ID)
	ids := map[string]string{
		"projects": s.Project, "sessions": s.ID, "runs": run, "messages": messages.Items[0].ID, "issues": "1",
		"todos": todo.Items[0].ID, "tokens": token.ID, "approvals": approval, "tool-results": "toolu_1",
		"invocations": run, "compactions": run, "processes": run, "standing-approvals": approval,
		"files": "wordcount.go", "download": "wordcount.go", "prompts": ".kaged/prompts/primary.md",
		"operators": "ada", "workspaces": "one",
	}
	err := s.Client.Do(t.Context(), http.MethodPut, "/api/v1/local/config",
		map[string]any{"document": fmt.Sprintf("operator_name = %q\n", secret)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, id := range ids {
		if id == "" {
			t.Fatalf("ada has no %s", kind)
		}
	}
	return ids
}

// unknownIDs returns well-formed ids without objects.
func unknownIDs(ids map[string]string) map[string]string {
	out := map[string]string{}
	for kind, id := range ids {
		switch {
		case kind == "projects", kind == "operators", kind == "workspaces":
			out[kind] = "no-such-" + kind
		case len(id) == 26:
			out[kind] = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
		default:
			out[kind] = id
		}
	}
	return out
}

// Two operators share a deployment over mTLS, each with their own workspace. A route with one of ada's ids answers bob
// with 404, as for an unknown id. No list shows bob an object of ada.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(
		fakellm.Step{fakellm.Say("I keep " + secret + ".")},
		fakellm.Step{fakellm.Tool("shell.bash", `{"command":"git push --force origin `+secret+`"}`)},
		fakellm.Step{fakellm.Say("Bob's answer.")},
	))
	h := startShared(t, llm, "allow_uncaged = true\n")
	dir := h.project(t, "one")
	h.project(t, "two")
	ada, bob := h.signIn(t, "ada"), h.signIn(t, "bob")

	s := kagedtest.Open(t, ada, dir) // the first operator gets the first workspace
	ids := adasIDs(t, h, s)
	csrf := csrfOf(t, bob)

	// Before bob has a workspace, and after he has one.
	h.nothingOfAdas(t, bob, csrf, ids, dir)
	theirs := kagedtest.Create(t, bob, filepath.Join(h.projects("two"), "wordcount"))
	// Both projects have the same name, and each operator sees only their own.
	ids["projects"] = "wordcount"
	if got := ask(t, bob, csrf, "GET", "/api/v1/projects/wordcount/issues/1", ""); got.status != http.StatusNotFound {
		t.Errorf("bob asks for issue 1 of his project: %d %s", got.status, got.body)
	}
	delete(ids, "projects")
	h.nothingOfAdas(t, bob, csrf, ids, dir)

	for _, path := range []string{
		dir, filepath.Join(h.projects("one"), "absent"), filepath.Join(h.projects("two"), "..", "one", "wordcount"), "/etc",
		h.Dir, "../one/wordcount",
	} {
		got := ask(t, bob, csrf, "POST", "/api/v1/projects/load", fmt.Sprintf(`{"path":%q}`, path))
		if got.status != http.StatusNotFound {
			t.Errorf("bob loads %s: %d %s", path, got.status, got.body)
		}
	}
	link := filepath.Join(h.projects("two"), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, bob, csrf, "POST", "/api/v1/projects/load", fmt.Sprintf(`{"path":%q}`, link)); got.status != 404 {
		t.Errorf("bob loads a link to ada's project: %d %s", got.status, got.body)
	}

	carol := h.signIn(t, "carol")
	err := carol.Do(t.Context(), http.MethodPost, "/api/v1/projects/load", map[string]any{"path": dir}, nil)
	if f := fault.From(err); f.Code != fault.Unavailable || f.Details["reason"] != "no_workspace" {
		t.Errorf("a third operator loads a project: got %v, want unavailable, no_workspace", err)
	}
	h.forged(t, theirs)
	h.configured(t, ada)
}

// configured checks that what bob and an administrator asked for did not change ada's own configuration, and that the
// administrator does not see it.
func (h *shared) configured(t *testing.T, ada *client.Client) {
	t.Helper()
	// A change of a configuration counts within a second.
	kagedtest.Eventually(t, "ada has the name that she gave herself", func() bool {
		return kagedtest.Get[struct {
			OperatorName string `json:"operator_name"`
		}](t, ada, "/api/v1/me").OperatorName == secret
	})
	root := h.signIn(t, "root", "kaged-admins")
	for _, path := range []string{"operators/ada/config", "operators", "audit", "workspaces"} {
		got := ask(t, root, csrfOf(t, root), "GET", "/api/v1/admin/"+path, "")
		if got.status != http.StatusOK || strings.Contains(got.body, secret) {
			t.Errorf("an administrator asks for %s: %d %s", path, got.status, got.body)
		}
	}
}

// nothingOfAdas requests ada's objects on every route of the API as another operator.
func (h *shared) nothingOfAdas(t *testing.T, c *client.Client, csrf string, ids map[string]string, dir string) {
	t.Helper()
	none, named, lists := unknownIDs(ids), 0, 0
	for _, r := range routes(t, c) {
		if !strings.HasPrefix(r.path, "/api/") || strings.HasSuffix(r.path, "/stream") || r.path == "/api/v1/socket" {
			continue // checked below
		}
		path, complete := r.fill(ids)
		if parameter.MatchString(r.path) && !complete {
			continue // a route of another kind, such as a file of the gateway
		}
		if r.method == http.MethodDelete {
			path += "?confirm=true"
		}
		got := ask(t, c, csrf, r.method, path, r.body(dir))
		for kind, id := range ids {
			if len(id) > 20 && strings.Contains(got.body, id) && !strings.Contains(path, id) {
				t.Errorf("%s %s tells the id of ada's %s: %s", r.method, path, kind, got.body)
			}
		}
		if strings.Contains(got.body, secret) || strings.Contains(got.body, h.projects("one")+"/wordcount") &&
			!strings.Contains(r.path, "load") {
			t.Errorf("%s %s shows ada's words or places: %s", r.method, path, got.body)
		}
		if !parameter.MatchString(r.path) {
			lists++
			continue
		}
		named++
		if got.status != http.StatusNotFound && r.path != "/api/v1/sessions/{id}/socket" {
			t.Errorf("%s %s: %d %s, want 404", r.method, path, got.status, got.body)
			continue
		}
		other, _ := r.fill(none)
		if r.method == http.MethodDelete {
			other += "?confirm=true"
		}
		want := ask(t, c, csrf, r.method, other, r.body(dir))
		seen, unknown := got.body, want.body
		for kind := range ids {
			if ids[kind] != none[kind] && strings.Contains(path, ids[kind]) {
				seen, unknown = strings.ReplaceAll(seen, ids[kind], "ID"), strings.ReplaceAll(unknown, none[kind], "ID")
			}
		}
		if got.status != want.status || seen != unknown {
			t.Errorf("%s %s differs from an unknown id: %d %s, and %d %s", r.method, path, got.status, got.body,
				want.status, want.body)
		}
	}
	if named < 20 || lists < 10 {
		t.Errorf("only %d routes with ids and %d without were asked", named, lists)
	}
	for _, path := range []string{"/stream", "/socket"} {
		if got := ask(t, c, csrf, "GET", "/api/v1/sessions/"+ids["sessions"]+path, ""); got.status < 400 {
			t.Errorf("ada's %s: %d", path, got.status)
		}
	}
	if _, err := c.Attach(t.Context(), ids["sessions"], map[string]int64{"output": 0}, false); err == nil {
		t.Error("bob holds ada's session")
	}
}

// forged checks that a workspace with a false operator is refused by the issue service, and by the services of another
// workspace.
func (h *shared) forged(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	ask := func(who, user string) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "kaged-user-id", user, "kaged-role", "admin")
		_, err := issuev1.NewIssueToolServiceClient(h.as(t, who, "issue")).UseIssues(ctx,
			&issuev1.UseIssuesRequest{ProjectId: s.Project, Action: "list"})
		return err
	}
	if err := ask("tool-runner.one", "ada"); err != nil {
		t.Errorf("ada's workspace asks for her issues: %v", err)
	}
	for who, user := range map[string]string{"tool-runner.one": "bob", "tool-runner.two": "ada", "tool-runner": "ada"} {
		if err := ask(who, user); !errors.Is(err, fault.Forbidden) {
			t.Errorf("%s asks for the issues of %s: got %v, want forbidden", who, user, err)
		}
	}
	for who, allowed := range map[string]bool{"tool-runner.one": true, "tool-runner.two": false, "tool-runner": false} {
		_, err := sandboxsupervisorv1.NewSandboxServiceClient(h.as(t, who, "sandbox-supervisor.one")).
			ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{})
		if allowed != (err == nil) || !allowed && !errors.Is(err, fault.Forbidden) {
			t.Errorf("%s lists the processes of workspace one: got %v", who, err)
		}
	}
	assign := issuev1.NewIssueToolServiceClient(h.as(t, "tool-runner.two", "issue"))
	if _, err := assign.AssignWorkspace(t.Context(), &issuev1.AssignWorkspaceRequest{
		Workspace: "two", Operator: "ada", Assignment: 1 << 40,
	}); !errors.Is(err, fault.Forbidden) {
		t.Errorf("a workspace assigns itself: got %v, want forbidden", err)
	}
}
