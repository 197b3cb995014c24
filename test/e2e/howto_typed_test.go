package e2e_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/certs"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// grpcurl builds grpcurl, of the version in go.mod, and returns its folder.
func grpcurl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	build.Env = append(os.Environ(), "GOWORK=off") // the versions of test/go.mod
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building grpcurl: %v\n%s", err, out)
	}
	return dir
}

var shellBlock = regexp.MustCompile("(?s)\n *```sh\n(.*?)\n *```\n")

// commands returns all shell commands of a page from a text on and up to another.
func commands(t *testing.T, page, from, to string) string {
	t.Helper()
	text := kagedtest.Read(t, "../..", page)
	_, text, found := strings.Cut(text, from)
	text, _, ended := strings.Cut(text, to)
	var all strings.Builder
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		all.WriteString(block[1] + "\n")
	}
	if !found || !ended || all.Len() == 0 {
		t.Fatalf("%s has no commands between %q and %q", page, from, to)
	}
	return all.String()
}

// The commands of docs/howto/debug-with-grpcurl.md, typed unchanged but for the addresses of hosts and an operator: at
// the sockets of services in processes of their own, and over mTLS with a debugging certificate, where the refusals
// read as the page says.
func TestDebuggingIsTyped(t *testing.T) {
	t.Parallel()
	const howto = "docs/howto/debug-with-grpcurl.md"
	llm := fakellm.Start(t)
	c := &constellation{
		World:     kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")),
		processes: map[string]*kagedtest.Process{},
	}
	home := t.TempDir()
	n := c.Newcomer(t, "HOME="+home, "KAGED_DATA_DIR="+c.DataDir)
	tools := "export PATH=$PATH:" + grpcurl(t) + "\n"
	n.Types(t, "kaged certs init ~/kaged-ca\nkaged certs issue ~/kaged-ca session-manager\n"+
		"kaged certs issue ~/kaged-ca harness\n")
	c.env = append(append(append([]string{}, c.Env...), databaseEnv(t)...), "KAGED_NATS_URL="+natsURL(t),
		"KAGED_LISTEN=127.0.0.1:0")
	addresses := strings.NewReplacer("10.1.2.3:7421", testkit.Address(), "10.1.2.4:7422", testkit.Address())
	for _, name := range serviceNames {
		env := append([]string{}, c.env...)
		if at, remote := map[string]string{"session-manager": "10.1.2.3:7421", "harness": "10.1.2.4:7422"}[name]; remote {
			env = append(env, certs.Env(certs.Files(filepath.Join(home, "kaged-ca", name)))...)
			env = append(env, config.EnvName("services", name, "listen")+"=unix:"+host.SocketPath(c.DataDir, name)+","+
				addresses.Replace(at))
		}
		c.processes[name] = kagedtest.Command(t, name, env)
	}
	c.ready(t)
	s := kagedtest.Open(t, c.SignIn(t), c.Project(t))

	out := n.Types(t, tools+commands(t, howto, "# Debug with grpcurl\n", "## Between hosts\n"))
	for _, line := range []string{
		"tool-runner.sock", "kaged.toolrunner.v1.ToolRunnerService", "rpc CreateSession", `"status": "SERVING"`,
		"file.read", `"wordcount"`, s.ID,
	} {
		if !strings.Contains(out, line) {
			t.Errorf("it printed no %q:\n%s", line, out)
		}
	}
	between := addresses.Replace(commands(t, howto, "## Between hosts\n", "## What a call does\n"))
	out = n.Types(t, tools+strings.ReplaceAll(between, `"kaged-user-id: ada"`, `"kaged-user-id: $(id -un)"`))
	for _, line := range []string{"kaged.sessionmanager.v1.SessionService", `"wordcount"`, `"status": "SERVING"`} {
		if !strings.Contains(out, line) {
			t.Errorf("over mTLS it printed no %q:\n%s", line, out)
		}
	}
	at := addresses.Replace("10.1.2.3:7421 list || true\n")
	out = n.Types(t, tools+"grpcurl -plaintext -connect-timeout 2 "+at+
		"cd ~/kaged-ca/debug\ngrpcurl -cacert ca.crt -cert tls.crt -key tls.key -authority harness.kaged "+at)
	for _, text := range []string{
		"context deadline exceeded", "certificate is valid for session-manager.kaged, not harness.kaged",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("the refusals print no %q:\n%s", text, out)
		}
	}
}

// The request of docs/howto/put-behind-oauth.md by which a person tries what a proxy sends, typed unchanged but for the
// gateway's address: with the nonce the gateway takes the name of the operator from the header.
func TestAProxysRequestIsTyped(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	n := w.Newcomer(t)
	secret, request, _ := strings.Cut(kagedtest.Block(t, "docs/howto/put-behind-oauth.md", "Any other proxy", "sh"), "\n")
	n.Types(t, secret)
	d := w.Up(t, []string{
		"KAGED_SERVICES_GATEWAY_AUTH=sidecar", "KAGED_SERVICES_GATEWAY_SIDECAR_NONCE_FILE=" + filepath.Join(n.Dir, "nonce"),
	})
	at, err := url.Parse(d.LaunchURL)
	if err != nil {
		t.Fatal(err)
	}
	out := n.Types(t, strings.ReplaceAll(request, "127.0.0.1:7420", at.Host))
	if !strings.Contains(out, `"user_id":"ada"`) {
		t.Errorf("it printed %s", out)
	}
}

// kubectl notes its arguments in place of a cluster, and fails where they name a file that is not there.
const kubectl = `#!/bin/bash
for a in "$@"; do
  case $a in --from-file=*) [ -e "${a#--from-file=}" ] || { echo "no ${a#--from-file=}" >&2; exit 1; } ;; esac
done
echo "kubectl $*"
`

// The commands of docs/howto/run-on-kubernetes.md that make certificates and secrets, typed unchanged. There is no
// cluster: kubectl checks that the files of each secret are there, and each secret gets what its name says.
func TestSecretsOfAClusterAreTyped(t *testing.T) {
	t.Parallel()
	const howto = "docs/howto/run-on-kubernetes.md"
	w := kagedtest.NewWorld(t, "")
	n := w.Newcomer(t)
	kagedtest.Write(t, n.Dir, "bin/kubectl", kubectl)
	if err := os.Chmod(filepath.Join(n.Dir, "bin/kubectl"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "export PATH=$PWD/bin:$PATH\n"
	out := n.Types(t, path+commands(t, howto, "and secrets, once:\n", "Files come into"))
	out += n.Types(t, path+commands(t, howto, "is its part for your own overlay", "The other secrets are"))
	for _, line := range []string{
		"-n kaged create secret generic kaged-tls-gateway --from-file=ca/gateway",
		"-n kaged create secret generic kaged-tls-postgres --from-file=ca/postgres",
		"-n kaged-workspaces create secret generic kaged-tls-tool-runner --from-file=ca/tool-runner",
		"generic kaged-tls-sandbox-supervisor-b --from-file=ca/sandbox-supervisor.workspace-b",
		"apply -k deploy/k8s/overlays/dev", "apply -k deploy/k8s/overlays/shared",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("it did not run kubectl with %q:\n%s", line, out)
		}
	}
	urls := regexp.MustCompile(`postgres://\w+:\w+@\S+`).FindAllString(out, -1)
	if len(urls) != 2 || urls[0] == urls[1] {
		t.Errorf("the database's secret has %v", urls)
	}
	for _, u := range urls {
		if at, err := url.Parse(u); err != nil || at.Query().Get("sslmode") != "verify-full" {
			t.Errorf("the database's address is %s (%v)", u, err)
		}
	}
}
