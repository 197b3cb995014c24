package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/testkit/certs"
	"kaged.dev/services/kaged"
)

// TestMain makes this binary the command kaged, which setup.sh runs.
func TestMain(m *testing.M) {
	if os.Getenv("KAGED_TEST_COMMAND") != "" {
		os.Exit(kaged.Main())
	}
	os.Exit(m.Run())
}

// loadMTLS reads docker-compose.yml with its override.
func loadMTLS(t *testing.T) *types.Project {
	t.Helper()
	files := []string{filepath.Join(root, "docker-compose.yml"), filepath.Join(root, "docker-compose.mtls.yml")}
	opts, err := cli.NewProjectOptions(files, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := opts.LoadProject(t.Context())
	if err != nil {
		t.Fatalf("docker-compose.mtls.yml does not load: %v", err)
	}
	return p
}

// secured are the services with mTLS in the override.
var secured = []string{"gateway", "session-manager", "harness", "issue", "tool-runner"}

// With the override a service has its own certificate and no other's, the CA's key is seen by setup alone, and no
// service listens on TCP without one. Agents work where no other service can be reached.
func TestOverrideWithMTLS(t *testing.T) {
	t.Parallel()
	p := loadMTLS(t)
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			switch {
			case name == "setup":
			case v.Source == "secret-ca":
				t.Errorf("%s sees the CA's key", name)
			case strings.HasPrefix(v.Source, "tls-") && (v.Source != "tls-"+name || !v.ReadOnly ||
				v.Target != "/run/secrets/tls"):
				t.Errorf("%s has the certificate %s at %s, read-only %t", name, v.Source, v.Target, v.ReadOnly)
			}
		}
		env := func(key string) string {
			if v := s.Environment[key]; v != nil {
				return *v
			}
			return ""
		}
		own := "KAGED_SERVICES_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		listensTCP := slices.Contains(services, name) && !strings.HasPrefix(env(own+"_LISTEN"), "unix:")
		certified := mount(s, "/run/secrets/tls") != nil
		if listensTCP && (env("KAGED_TLS_CERT_FILE") == "" || !certified || env(own+"_ADDRESS") == "") {
			t.Errorf("%s listens on TCP without a certificate or an address", name)
		}
		if want := slices.Contains(secured, name); want != (certified && env("KAGED_TLS_KEY_FILE") != "") &&
			slices.Contains(services, name) {
			t.Errorf("%s has a certificate: %t, want %t", name, certified, want)
		}
		if want := slices.Contains(secured, name); want != slices.Contains(networks(s), "mesh") {
			t.Errorf("%s is in the network mesh: %t, want %t", name, !want, want)
		}
		if want := slices.Contains([]string{"gateway", "session-manager", "issue"}, name); want != (env(
			"KAGED_NATS_CERT_FILE") != "") {
			t.Errorf("%s is a user of NATS: %t, want %t", name, !want, want)
		}
	}
	if !p.Networks["mesh"].Internal {
		t.Error("the network mesh has a way out")
	}
	supervisor := service(t, p, "sandbox-supervisor")
	for _, other := range p.Services {
		if other.Name != "sandbox-supervisor" && slices.ContainsFunc(networks(other), func(
			n string,
		) bool {
			return slices.Contains(networks(supervisor), n)
		}) {
			t.Errorf("agents reach %s over a network", other.Name)
		}
	}
	for _, store := range stores {
		for _, n := range service(t, p, store).Networks {
			if !slices.Contains(n.Aliases, store+mtls.Domain) {
				t.Errorf("%s is not known by the name in its certificate", store)
			}
		}
	}
	if command := strings.Join(service(t, p, "postgres").Command, " "); !strings.Contains(command, "ssl=on") {
		t.Errorf("postgres runs %s, without TLS", command)
	}
}

// With KAGED_MTLS setup makes one CA, and a new certificate for each service and store at each start, which its owner
// alone reads; NATS and Postgres are then reached over TLS and verified.
func TestSetupMakesCertificates(t *testing.T) {
	t.Parallel()
	dir, bin := volumes(t), t.TempDir()
	names := append(slices.Clone(secured), stores...)
	for _, name := range append([]string{"ca"}, names...) {
		at := filepath.Join(dir, "secrets", "tls", name)
		if name == "ca" {
			at = filepath.Join(dir, "secrets", "ca")
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nKAGED_TEST_COMMAND=1 exec " + self + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "kaged"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	env, uid := user()
	env = append(env, "KAGED_MTLS=1", "PATH="+bin+":"+os.Getenv("PATH"), "KAGED_DATA_DIR="+t.TempDir(),
		"KAGED_CONFIG="+bin+"/none.toml")
	run := func() (serials map[string]string) {
		t.Helper()
		if said, err := setup(t, dir, env...); err != nil {
			t.Fatalf("setup fails: %v\n%s", err, said)
		}
		serials = map[string]string{}
		for _, name := range names {
			files := certs.Files(filepath.Join(dir, "secrets", "tls", name))
			serials[name] = content(t, files.Cert)
			info, err := os.Stat(files.Key)
			if err != nil || info.Mode().Perm() != 0o400 {
				t.Errorf("the key of %s: %v, %v, want mode 0400", name, info, err)
			}
			if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != uid && name != "postgres" {
				t.Errorf("the key of %s belongs to %d, want %d", name, owner, uid)
			}
			if slices.Contains(stores, name) {
				continue
			}
			if m, err := mtls.Load(files, nil); err != nil || m.Identity().Service != name {
				t.Errorf("the certificate of %s: %v", name, err)
			}
		}
		return serials
	}
	first := run()
	ca := content(t, dir, "secrets/ca/ca.crt")
	second := run()
	if content(t, dir, "secrets/ca/ca.crt") != ca {
		t.Error("the CA has become another")
	}
	for _, name := range names {
		if first[name] == second[name] {
			t.Errorf("the certificate of %s was not renewed", name)
		}
	}
	db, err := pgx.ParseConfig(strings.ReplaceAll(content(t, dir, "secrets/database/url"), "/run/secrets/tls",
		filepath.Join(dir, "secrets/tls/session-manager")))
	if err != nil || db.Host != "postgres.kaged" || db.TLSConfig == nil || db.TLSConfig.ServerName != "postgres.kaged" ||
		db.TLSConfig.InsecureSkipVerify ||
		len(db.Fallbacks) != 0 {
		t.Errorf("the database's URL means %+v, %v, want one that is verified", db, err)
	}
	if url := content(t, dir, "secrets/bus/url"); url != "tls://nats.kaged:4222" {
		t.Errorf("NATS is at %s", url)
	}
	if conf := content(t, dir, "secrets/bus/nats.conf"); conf != strings.TrimSpace(text(t, "deploy", "nats",
		"mtls.conf")) {
		t.Error("NATS runs with another configuration than deploy/nats/mtls.conf")
	}
}
