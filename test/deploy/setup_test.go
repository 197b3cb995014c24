package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
)

// volumes creates the folders that setup finds mounted.
func volumes(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range []string{
		"secrets/database", "secrets/bus", "secrets/services", "data/nats", "data/session-manager", "data/tool-runner",
		"data/sandbox-supervisor", "data/home",
	} {
		if err := os.MkdirAll(filepath.Join(dir, v), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// setup runs deploy/setup.sh on volumes and returns its output.
func setup(t *testing.T, dir string, env ...string) (said string, err error) {
	t.Helper()
	cmd := exec.Command("sh", filepath.Join(root, "deploy", "setup.sh"), dir)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...) // the last entry with a name counts
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// user returns the user of the services in these tests: a different user only if the test may change the owner of
// files.
func user() (env []string, uid int) {
	uid = os.Getuid()
	if uid == 0 {
		uid = 1500
	}
	return []string{
		fmt.Sprintf("KAGED_UID=%d", uid), fmt.Sprintf("KAGED_GID=%d", gid()), fmt.Sprintf("POSTGRES_UID=%d", gid()),
	}, uid
}

func gid() int {
	if os.Getuid() == 0 {
		return 1500
	}
	return os.Getgid()
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// setup makes secrets that differ from each other and from those of another machine, keeps them from then on, and
// gives each file to the one user that reads it.
func TestSetupMakesSecretsOnce(t *testing.T) {
	t.Parallel()
	dir, other := volumes(t), volumes(t)
	env, uid := user()
	for _, d := range []string{dir, other} {
		if said, err := setup(t, d, env...); err != nil {
			t.Fatalf("setup fails: %v\n%s", err, said)
		}
	}
	first := map[string]string{}
	for _, file := range []string{
		"database/password", "database/url", "bus/token", "bus/url", "bus/nats.conf", "services/token",
	} {
		path := filepath.Join(dir, "secrets", file)
		first[file] = content(t, path)
		if first[file] == content(t, other, "secrets", file) {
			t.Errorf("%s is the same on two machines", file)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o400 {
			t.Errorf("%s: %v %v, want mode 0400", file, info, err)
		}
		if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != uid && file != "bus/token" &&
			file != "database/password" {
			t.Errorf("%s belongs to %d, want %d", file, owner, uid)
		}
	}
	if first["database/password"] == first["bus/token"] || first["bus/token"] == first["services/token"] ||
		len(first["services/token"]) != 64 {
		t.Errorf("the secrets are %q", first)
	}
	if said, err := setup(t, dir, env...); err != nil {
		t.Fatalf("setup fails again: %v\n%s", err, said)
	}
	for file, want := range first {
		if got := content(t, dir, "secrets", file); got != want {
			t.Errorf("%s has become another", file)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "secrets", "*", "*.new")); len(left) > 0 {
		t.Errorf("setup leaves %v", left)
	}
}

// Setup writes files in the form that their readers need: the database's URL, and a NATS server that requires the token
// and offers its monitoring only on its own interface.
func TestSetupWritesWhatItsReadersUnderstand(t *testing.T) {
	t.Parallel()
	dir := volumes(t)
	env, _ := user()
	if said, err := setup(t, dir, env...); err != nil {
		t.Fatalf("setup fails: %v\n%s", err, said)
	}
	db, err := pgx.ParseConfig(content(t, dir, "secrets/database/url"))
	if err != nil || db.User != "kaged_owner" || db.Host != "postgres" || db.Database != "kaged" ||
		db.Password != content(t, dir, "secrets/database/password") {
		t.Errorf("the database's URL means %+v, %v", db, err)
	}
	conf := &server.Options{}
	if err := conf.ProcessConfigFile(filepath.Join(dir, "secrets/bus/nats.conf")); err != nil {
		t.Fatal(err)
	}
	if conf.Host != "0.0.0.0" || conf.Port != 4222 || conf.HTTPHost != "127.0.0.1" || conf.HTTPPort != 8222 ||
		!conf.JetStream || conf.StoreDir != "/data" {
		t.Errorf("NATS is to be %s:%d, monitoring %s:%d, jetstream %t in %s", conf.Host, conf.Port, conf.HTTPHost,
			conf.HTTPPort, conf.JetStream, conf.StoreDir)
	}
	if want := "nats://" + conf.Authorization + "@nats:4222"; conf.Authorization == "" ||
		content(t, dir, "secrets/bus/url") != want {
		t.Errorf("NATS wants the token %q, its clients bring %q", conf.Authorization, content(t, dir, "secrets/bus/url"))
	}
}

// After a change of the services' user the new user owns the kept files, links included and not their targets.
func TestSetupGivesVolumesToAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("only root can give files away; what is left to see is that the folders are closed to others")
	}
	dir := volumes(t)
	outside := filepath.Join(t.TempDir(), "outside")
	kept := filepath.Join(dir, "data/sandbox-supervisor/cages/home/mark")
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{outside, kept} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "data/home/link")); err != nil {
		t.Fatal(err)
	}
	env, uid := user()
	if said, err := setup(t, dir, env...); err != nil {
		t.Fatalf("setup fails: %v\n%s", err, said)
	}
	for path, want := range map[string]int{
		kept: uid, filepath.Join(dir, "data/home"): uid, filepath.Join(dir, "data/home/link"): uid, outside: os.Getuid(),
	} {
		info, err := os.Lstat(path)
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != want {
			t.Errorf("%s: %+v %v, want owner %d", path, info, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "data/session-manager")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("what session-manager keeps has the mode %v, %v", info.Mode(), err)
	}
}

// An invalid user is refused in a sentence with the setting's name, before any change.
func TestSetupRefusesUsers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ env, want string }{
		"root":     {"KAGED_UID=0", "KAGED_UID is 0"},
		"a name":   {"KAGED_UID=ada", `not "ada"`},
		"an octal": {"KAGED_UID=00", "KAGED_UID is 0"},
		"negative": {"KAGED_GID=-1", `not "-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := volumes(t)
			said, err := setup(t, dir, c.env)
			if err == nil || !strings.Contains(said, c.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("setup says %q, %v, want a line with %q", said, err, c.want)
			}
			if made, _ := filepath.Glob(filepath.Join(dir, "secrets", "*", "*")); len(made) > 0 {
				t.Errorf("setup has made %v", made)
			}
		})
	}
}
