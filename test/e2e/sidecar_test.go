package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// provider is an OIDC provider with one client and with groups for its users.
type provider struct {
	*storage.Storage
	signedOut string
	groups    map[string][]string
}

// SetUserinfoFromToken implements op.Storage.
func (p *provider) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	err := p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
	if groups := p.groups[subject]; err == nil && len(groups) > 0 {
		info.AppendClaims("groups", groups)
	}
	return err
}

// GetClientByClientID implements op.Storage.
func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return &registered{c, p.signedOut}, nil
}

// registered is a client with an address to return to after a sign-out.
type registered struct {
	op.Client
	signedOut string
}

func (c *registered) PostLogoutRedirectURIs() []string { return []string{c.signedOut} }

// startProvider starts an OIDC provider for the address public, and returns its issuer.
func startProvider(t *testing.T, public string, groups map[string][]string) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	issuer := "http://" + srv.Listener.Addr().String()
	id := "kaged-" + filepath.Base(public)
	clients := map[string]*storage.Client{ // its own: the package's map is written without a lock
		id: storage.WebClient(id, "the-client's-secret", public+"/oidc/callback"),
	}
	srv.Config.Handler = exampleop.SetupServer(issuer, &provider{
		storage.NewStorageWithClients(storage.NewUserStore(issuer), clients), public + "/oidc/signed-out", groups,
	}, nil, false)
	srv.Start()
	t.Cleanup(srv.Close)
	return issuer
}

// startApache types the commands of docs/howto/put-behind-oauth.md that start Apache between people and a gateway, with
// the values of a test in place of the examples.
func startApache(t *testing.T, listen, gateway, issuer string, values ...string) {
	t.Helper()
	if _, err := exec.LookPath("apache2"); err != nil {
		t.Fatal("The test needs Apache with mod_auth_openidc: run  scripts/setup.sh test")
	}
	public, dir := "http://"+listen, t.TempDir()
	kagedtest.Write(t, dir, "nonce", nonce+"\n")
	values = append([]string{
		"https://kaged.example.com", public, "0.0.0.0:4180", listen, "127.0.0.1:7420", gateway,
		"https://id.example.com", issuer, "$(cat nonce)", "$(cat " + filepath.Join(dir, "nonce") + ")",
		"OIDC_CLIENT_ID=kaged", "OIDC_CLIENT_ID=kaged-" + listen,
		"OIDC_CLIENT_SECRET=...", `OIDC_CLIENT_SECRET="the-client's-secret"`, "\napache2 ", "\nexec apache2 ",
	}, values...)
	if os.Geteuid() == 0 {
		values = append(values, "-DFOREGROUND", "-DFOREGROUND -D Root")
	}
	lines := kagedtest.Block(t, "docs/howto/put-behind-oauth.md", "Apache with mod_auth_openidc", "sh")
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", strings.NewReplacer(values...).Replace(lines))
	log := &kagedtest.Log{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir, cmd.Env = "../..", []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Apache wrote:\n%s", log.String())
		}
	})
	kagedtest.Eventually(t, "Apache is ready", func() bool {
		resp, err := http.Get(public + "/oidc/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	})
}

// browser keeps cookies and follows redirects.
type browser struct {
	*http.Client
	t      *testing.T
	public string
}

func newBrowser(t *testing.T, public string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{&http.Client{Jar: jar, Timeout: kagedtest.Limit}, t, public}
}

// get sends a request with headers and returns the status, the address after redirects, and the body.
func (b *browser) get(at string, header http.Header) (status int, end, body string) {
	b.t.Helper()
	if !strings.HasPrefix(at, "http") {
		at = b.public + at
	}
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, at, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html") // as for a page, because only pages are redirected to the provider
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := b.Do(req)
	if err != nil {
		b.t.Fatalf("GET %s: %v", at, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("GET %s: %v", at, err)
	}
	return resp.StatusCode, resp.Request.URL.String(), string(data)
}

var hiddenID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// signIn opens the console and signs in at the provider's page.
func (b *browser) signIn(user string) {
	b.t.Helper()
	_, end, page := b.get("/", nil)
	form := hiddenID.FindStringSubmatch(page)
	if !strings.Contains(end, "/login/username") || form == nil {
		b.t.Fatalf("the console leads to %s: %s", end, page)
	}
	at, err := url.Parse(end)
	if err != nil {
		b.t.Fatal(err)
	}
	at.RawQuery = ""
	resp, err := b.PostForm(at.String(), url.Values{"id": {form[1]}, "username": {user}, "password": {"verysecure"}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Request.URL.String(), b.public+"/") {
		body, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("%s signs in: %d at %s: %s", user, resp.StatusCode, resp.Request.URL, body)
	}
}

// me is an answer of GET /api/v1/me.
type me struct {
	UserID string   `json:"user_id"`
	Email  string   `json:"email"`
	Groups []string `json:"groups"`
}

func (b *browser) me(header http.Header) (int, me) {
	b.t.Helper()
	status, _, body := b.get("/api/v1/me", header)
	var out me
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			b.t.Fatal(err)
		}
	}
	return status, out
}

// client returns an API client that sends the browser's cookies.
func (b *browser) client() *client.Client {
	b.t.Helper()
	target, err := url.Parse(b.public)
	if err != nil {
		b.t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = target.Host
		r.Out.Header.Del("Origin")
		for _, c := range b.Jar.Cookies(target) {
			if c.Name != "kaged_csrf" {
				r.Out.AddCookie(c)
			}
		}
	}})
	b.t.Cleanup(proxy.Close)
	c := client.New(proxy.URL) // some answers are Apache's own, which no description has
	b.t.Cleanup(c.Close)
	if err := c.Bootstrap(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// forgeries are headers that a client may send to be taken for another user.
func forgeries() map[string]http.Header {
	return map[string]http.Header{
		"another's name":                 {"X-Kaged-User-Id": {"id2"}},
		"another's name with the nonce":  {"X-Kaged-User-Id": {"id2"}, "X-Kaged-Auth-Nonce": {nonce}},
		"another's name, a wrong nonce":  {"X-Kaged-User-Id": {"id2"}, "X-Kaged-Auth-Nonce": {"x"}},
		"two names":                      {"X-Kaged-User-Id": {"id2", "id3"}},
		"two nonces":                     {"X-Kaged-Auth-Nonce": {nonce, "x"}, "X-Kaged-User-Id": {"id2"}},
		"a name in another spelling":     {"x-kaged-user-id": {"id2"}, "X-KAGED-AUTH-NONCE": {nonce}},
		"a name with underscores":        {"X_Kaged_User_Id": {"id2"}, "X_Kaged_Auth_Nonce": {nonce}},
		"groups":                         {"X-Kaged-User-Groups": {"kaged-admins"}},
		"groups in two headers":          {"X-Kaged-User-Groups": {"kaged-admins", "a"}},
		"an address":                     {"X-Kaged-User-Email": {"root@example.com"}},
		"claims of the module":           {"OIDC_CLAIM_sub": {"id2"}, "Oidc_claim_groups": {"kaged-admins"}},
		"a name that the module gives":   {"Remote_User": {"id2"}, "REMOTE_USER": {"id2"}},
		"a hop-by-hop nonce":             {"Connection": {"X-Kaged-Auth-Nonce, X-Kaged-User-Id"}},
		"an API token":                   {"Authorization": {"Bearer kaged_" + strings.Repeat("A", 43)}},
		"a gRPC header":                  {"Grpc-Metadata-Kaged-Role": {"admin"}, "Kaged-Role": {"admin"}},
		"a forged forwarding":            {"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-User": {"id2"}},
		"a forged cookie of the session": {"Cookie": {"mod_auth_openidc_session=forged"}},
	}
}

// People sign in through Apache with mod_auth_openidc and a real OIDC provider, use sockets and streams, and sign out.
// Forged headers change neither the operator nor the groups.
func TestSignInByApache(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(fakellm.Step{fakellm.Say("Through Apache.")}, fakellm.Step{fakellm.Say("Again.")}))
	listen := testkit.Address()
	public := "http://" + listen
	h := startShared(t, llm, "allow_uncaged = true\n", "KAGED_UI_URL="+public,
		"KAGED_SERVICES_GATEWAY_SOCKET_MAX_AGE=4s")
	issuer := startProvider(t, public, map[string][]string{"id1": {"dev", "ops"}})
	startApache(t, listen, h.gateway, issuer)
	dir := h.project(t, "one")

	stranger := newBrowser(t, public)
	for name, header := range forgeries() {
		if status, who := stranger.me(header); status != http.StatusUnauthorized {
			t.Errorf("without a sign-in, %s: %d as %+v, want 401", name, status, who)
		}
	}
	ada := newBrowser(t, public)
	ada.signIn("test-user@127.0.0.1")
	want := me{"id1", "test-user@zitadel.ch", []string{"dev", "ops"}}
	for name, header := range forgeries() {
		status, who := ada.me(header)
		if status == http.StatusUnauthorized && (name == "a forged cookie of the session" || name == "a hop-by-hop nonce") {
			continue // the request is signed out, and not signed in as another person
		}
		if status != http.StatusOK || fmt.Sprint(who) != fmt.Sprint(want) {
			t.Errorf("signed in, %s: %d as %+v, want %+v", name, status, who, want)
		}
	}
	for _, header := range []http.Header{nil, {"X-Kaged-User-Id": {"id1"}}, {"X-Kaged-Auth-Nonce": {"x"}}} {
		if status, _, _ := ada.get("http://"+h.gateway+"/api/v1/me", header); status != 401 && status != 403 {
			t.Errorf("beside Apache, with %v: %d, want a refusal", header, status)
		}
	}
	if status, _, body := ada.get("/api/v1/admin/operators", nil); status != http.StatusNotFound {
		t.Errorf("an administrator's route: %d %s", status, body)
	}

	c := ada.client()
	s := kagedtest.Open(t, c, dir)
	if outcome := s.Run(t, "hello"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	s.Contiguous(t)
	ada.streams(s)
	h.endsWithAge(t, s)
	ada.signOut(c)

	bob := newBrowser(t, public)
	bob.signIn("test-user2")
	if status, who := bob.me(nil); status != http.StatusOK || who.UserID != "id2" || len(who.Groups) > 0 {
		t.Errorf("the second operator is %d, %+v", status, who)
	}
	if status, _, body := bob.get("/api/v1/sessions/"+s.ID, nil); status != http.StatusNotFound {
		t.Errorf("the second operator asks for a session of the first: %d %s", status, body)
	}
}

// streams reads the first event of a stream, which must not wait in a buffer on the way.
func (b *browser) streams(s *kagedtest.Session) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), kagedtest.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.public+"/api/v1/sessions/"+s.ID+"/stream?from=0", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if resp.StatusCode != http.StatusOK || err != nil || strings.TrimSpace(line) == "" {
		b.t.Errorf("a stream through Apache begins with %d %q, %v", resp.StatusCode, line, err)
	}
}

// endsWithAge checks that a socket ends at its maximum age, and that the same client may attach again while it is
// signed in.
func (h *shared) endsWithAge(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	s.UntilLost(t)
	s.Attach(t, s.Seen())
	if outcome := s.Run(t, "again"); outcome != "completed" {
		t.Errorf("over a second socket the run %s", outcome)
	}
	s.Contiguous(t)
}

// signOut ends the session at Apache and at the provider; after that requests, sockets and streams are refused.
func (b *browser) signOut(c *client.Client) {
	b.t.Helper()
	status, end, body := b.get("/oidc/callback?logout="+url.QueryEscape(b.public+"/oidc/signed-out"), nil)
	if status != http.StatusGone || end != b.public+"/oidc/signed-out" || !strings.Contains(body, "signed out") {
		b.t.Errorf("the sign-out ends at %s: %d %s", end, status, body)
	}
	if status, who := b.me(nil); status != http.StatusUnauthorized {
		b.t.Errorf("after the sign-out: %d as %+v", status, who)
	}
	if err := c.Do(b.t.Context(), http.MethodGet, "/api/v1/projects", nil, nil); err == nil {
		b.t.Error("after the sign-out a client lists projects")
	}
	if _, end, _ := b.get("/", nil); !strings.Contains(end, "/login/username") {
		b.t.Errorf("after the sign-out the console leads to %s", end)
	}
}

// A session at Apache ends at its maximum age, even if it is in use.
func TestSessionEndByApache(t *testing.T) {
	t.Parallel()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Kaged-Auth-Nonce") != nonce || r.Header.Get("X-Kaged-User-Id") != "id1" {
			t.Errorf("the gateway hears %v", r.Header)
		}
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(gateway.Close)
	listen := testkit.Address()
	issuer := startProvider(t, "http://"+listen, nil)
	startApache(t, listen, strings.TrimPrefix(gateway.URL, "http://"), issuer,
		"OIDC_SESSION_MAX=28800", "OIDC_SESSION_MAX=15")
	b := newBrowser(t, "http://"+listen)
	b.signIn("test-user@127.0.0.1")
	begun := time.Now()
	if status, _ := b.me(nil); status != http.StatusOK {
		t.Fatalf("signed in: %d", status)
	}
	kagedtest.Eventually(t, "the session ends", func() bool {
		status, _ := b.me(nil)
		return status == http.StatusUnauthorized
	})
	if took := time.Since(begun); took < 10*time.Second {
		t.Errorf("the session ended after %s, want 15s", took)
	}
}
