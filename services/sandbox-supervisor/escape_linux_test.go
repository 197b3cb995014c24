package sandboxsupervisor_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/escape"
)

const isAMD64 = runtime.GOARCH == "amd64"

// stranger is an unused user: the attacks without a cage may end its processes.
const stranger = 64321

// buildProbe builds the program that tries to escape, once. It is static, so that it runs in an empty cage.
var buildProbe = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "kaged-probe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "probe")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "kaged.dev/pkg/testkit/escape/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the probe: %w: %s", err, out)
	}
	return os.ReadFile(path)
})

// place returns a folder for a stage that belongs to the given user, with the probe and this test's own program in it.
func place(t testing.TB, uid int) string {
	t.Helper()
	probe, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	// Not the test's own folder, which only its owner can enter.
	dir, err := os.MkdirTemp("", "kaged-stage-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"probe": probe, "self": self} {
		testkit.WriteProgram(t, filepath.Join(dir, name), data)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		for _, name := range []string{"", "probe", "self"} {
			if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// environment is a machine as seen by a supervisor.
type environment struct {
	name string
	// helper is the test helper to start, "escape" by default; attr is its user and container.
	helper    string
	attr      syscall.SysProcAttr
	uid       int
	container *container
	// root means that only root can create it.
	root bool
	// unlimited removes cgroups: limits that need them are refused.
	unlimited bool
	// tier is the kind of enforcement there; if it is empty, cages are refused with a sentence that contains layer.
	tier, layer string
	// mends are further parts of the sentence: each missing permission and the setting that grants it.
	mends []string
}

var environments = []environment{
	{name: "root", root: true, tier: "userns"},
	{name: "user", uid: stranger, tier: "userns"},
	// As Docker and Kubernetes start containers by default.
	{
		name: "container", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{Caps: dockerCaps, Masked: true, Seccomp: true}, layer: "user namespaces",
		mends: []string{
			`security_opt: ["seccomp:deploy/seccomp.json", "systempaths=unconfined"]`,
			"refuses clone, clone3, unshare, mount, umount2, open_tree, mount_setattr",
			"/proc is covered",
		},
	},
	// As Docker starts the supervisor of a compose file other than kaged's: an ordinary user, without any capability.
	{
		name: "container-user", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{Masked: true, Seccomp: true, UID: stranger}, layer: "user namespaces",
		mends: []string{`security_opt: ["seccomp:deploy/seccomp.json", "systempaths=unconfined"]`},
	},
	// Each missing permission is named, whichever step of building a cage fails.
	{
		name: "container-user-masked", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{
			Masked: true,
			UID:    stranger,
		},
		layer: "mounting proc", mends: []string{`security_opt: ["systempaths=unconfined"]`},
	},
	{
		name: "container-user-without-sethostname", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{Refused: []uint32{unix.SYS_SETHOSTNAME}, UID: stranger}, layer: "uts",
		mends: []string{`security_opt: ["seccomp:deploy/seccomp.json"]`, "refuses sethostname"},
	},
	{
		name: "container-user-without-pivot-root", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{Refused: []uint32{unix.SYS_PIVOT_ROOT}, Masked: true, UID: stranger}, layer: "mounting proc",
		mends: []string{
			`security_opt: ["seccomp:deploy/seccomp.json", "systempaths=unconfined"]`,
			"refuses pivot_root",
			"/proc is covered",
		},
	},
	{
		name: "container-user-without-umount2", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{Refused: []uint32{unix.SYS_UMOUNT2}, UID: stranger}, layer: "mount",
		mends: []string{`security_opt: ["seccomp:deploy/seccomp.json"]`, "refuses umount2"},
	},
	{
		name: "container-user-without-mount-setattr", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{Refused: []uint32{unix.SYS_MOUNT_SETATTR}, UID: stranger}, layer: "mount",
		mends: []string{`security_opt: ["seccomp:deploy/seccomp.json"]`, "refuses mount_setattr"},
	},
	// Without the filter there are user namespaces, but /proc cannot be mounted because parts of it are masked.
	{
		name: "container-unconfined", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{
			Caps:   dockerCaps,
			Masked: true,
		},
		layer: "mounting proc", mends: []string{`security_opt: ["systempaths=unconfined"]`},
	},
	// With the right to mount, root needs no user namespace.
	{
		name: "container-sys-admin", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces},
		container: &container{
			Caps:   append(slices.Clone(dockerCaps), unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN),
			Masked: true,
		},
		unlimited: true, tier: "setuid",
	},
	{
		name: "container-privileged", root: true, attr: syscall.SysProcAttr{Cloneflags: namespaces}, container: &container{},
		tier: "userns",
	},
	// A user on a machine without user namespaces.
	{
		name: "user-without-namespaces", uid: stranger, attr: syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
		}, container: &container{NoUserns: true}, layer: "user namespaces",
		mends: []string{"sysctl -w user.max_user_namespaces=15000"},
	},
}

// start starts the stage of an environment in a folder.
func (e environment) start(t testing.TB, dir string) (*exec.Cmd, *bytes.Buffer) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a busy machine needs 3
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "self"))
	helper := cmp.Or(e.helper, "escape")
	attr := e.attr
	uid := os.Getuid()
	if e.uid != 0 && uid == 0 {
		uid = e.uid
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	if attr.Cloneflags&unix.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = attr.UidMappings
		attr.GidMappingsEnableSetgroups = os.Getuid() == 0
	}
	cmd.Env = []string{"KAGED_TEST_DIR=" + dir, "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "KAGED_HOST_SECRET=inherited"}
	if e.container != nil {
		helper = "container"
		text, err := json.Marshal(e.container)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "KAGED_TEST_CONTAINER="+string(text))
	}
	cmd.Env = append(cmd.Env, "KAGED_TEST_HELPER="+helper)
	cmd.Dir, cmd.SysProcAttr = dir, &attr
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	return cmd, &trouble
}

// In each environment the whole catalogue holds: every attack is contained and every permitted action works, in each
// kind of cage; or cages are refused with a sentence that names the missing part, and never silently weakened.
func TestEscapes(t *testing.T) {
	t.Parallel()
	for _, e := range environments {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			if e.root && os.Getuid() != 0 {
				t.Skip("only root can make this environment")
			}
			uid := e.uid
			if e.container != nil {
				uid = cmp.Or(uid, e.container.UID)
			}
			if os.Getuid() != 0 {
				uid = os.Getuid()
			}
			cmd, trouble := e.start(t, place(t, uid))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var tier, refused string
			results := map[escape.Profile]map[string]escape.Result{}
			lines(out, func(l line) {
				if l.ID == "" {
					tier, refused = tier+l.Tier, refused+l.Refused
					return
				}
				if results[l.Profile] == nil {
					results[l.Profile] = map[string]escape.Result{}
				}
				results[l.Profile][l.ID] = l.Result
			})
			if err := cmd.Wait(); err != nil {
				t.Errorf("the supervisor ended with %v", err)
			}
			if trouble.Len() > 0 {
				t.Errorf("the supervisor said %s", trouble)
			}
			if tier != e.tier {
				t.Errorf("cages are enforced by %q, want %q: %s", tier, e.tier, refused)
			}
			if e.tier == "" {
				if !strings.Contains(refused, "cage_unavailable: ") || !strings.Contains(refused, e.layer) {
					t.Errorf("cages are refused with %q, want cage_unavailable naming %q", refused, e.layer)
				}
				for _, want := range e.mends {
					if !strings.Contains(refused, want) {
						t.Errorf("cages are refused with %q, want %q in it", refused, want)
					}
				}
				if strings.Contains(refused, "CAP_SYS_ADMIN") || strings.Contains(refused, "unprivileged_userns_clone") {
					t.Errorf("cages are refused with %q, which names what does not mend it", refused)
				}
				if len(results) > 0 {
					t.Errorf("commands ran nevertheless: %v", results)
				}
				return
			}
			if len(results) == 0 {
				t.Fatalf("nothing ran: %s", refused)
			}
			judge(t, e, results)
		})
	}
}

// judge compares results with the catalogue.
func judge(t *testing.T, e environment, results map[escape.Profile]map[string]escape.Result) {
	tried := 0
	for _, p := range append(slices.Clone(profiles), escape.Neighbours, escape.Limited) {
		t.Run(string(p), func(t *testing.T) {
			for _, c := range escape.Catalogue {
				if !c.In(p) || c.AMD64 && !isAMD64 {
					continue
				}
				tried++
				t.Run(c.ID, func(t *testing.T) {
					r, ok := results[p][c.ID]
					if !ok {
						t.Fatalf("%s: no result", c.Attack)
					}
					if r.Outcome != c.Want || r.Detail == refusedLimit && !e.unlimited {
						t.Errorf("%s: %s: %s", c.Attack, r.Outcome, r.Detail)
					}
				})
			}
		})
	}
	t.Run("outside", func(t *testing.T) {
		if len(results[""]) < 10 {
			t.Errorf("the host was not looked at: %v", results[""])
		}
		for id, r := range results[""] {
			if r.Outcome != escape.Contained {
				t.Errorf("%s: %s", id, r.Detail)
			}
		}
	})
	if tried < 300 {
		t.Errorf("%d cases were tried only", tried)
	}
}

// Without a cage the same attacks succeed, so no case is contained only because its attack is broken.
func TestEscapesWithoutACage(t *testing.T) {
	t.Parallel()
	uid := stranger
	if os.Getuid() != 0 {
		uid = os.Getuid()
	}
	e := environment{uid: uid, helper: "uncaged"}
	cmd, trouble := e.start(t, place(t, uid))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, trouble)
	}
	outcomes, details := map[string]escape.Outcome{}, map[string]string{}
	lines(bytes.NewReader(out), func(l line) { outcomes[l.ID], details[l.ID] = l.Outcome, l.Detail })
	var escaped []string
	for _, c := range escape.Catalogue {
		if c.AMD64 && !isAMD64 || slices.Contains(c.Only, escape.Neighbours) || !c.Probed() {
			continue
		}
		if outcomes[c.ID] == escape.Escaped {
			escaped = append(escaped, c.ID)
		} else if c.Open {
			t.Errorf("%s: %s: %s: %s", c.ID, c.Attack, outcomes[c.ID], details[c.ID])
		}
	}
	if len(escaped) < 50 {
		t.Errorf("only %d escaped: %v", len(escaped), escaped)
	}
}

func init() { helpers["uncaged"] = helperUncaged }

// helperUncaged runs the probe on a stage without a cage.
func helperUncaged() {
	s := newStage(os.Getenv("KAGED_TEST_DIR"))
	defer s.close()
	var all []string
	for _, c := range escape.Catalogue {
		if (!c.AMD64 || isAMD64) && !slices.Contains(c.Only, escape.Neighbours) && c.Probed() {
			all = append(all, c.ID)
		}
	}
	cmd := exec.Command(s.probe(), append([]string{"case"}, all...)...)
	for name, value := range s.env(func(p *escape.Params) { p.Uncaged = true }) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "HOME="+s.dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.params.Work, os.Stdout, os.Stderr
	must(cmd.Run())
}

// The catalogue and the probe have the same cases, each once.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	probe, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "probe")
	testkit.WriteProgram(t, path, probe)
	out, err := exec.CommandContext(t.Context(), path, "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	seen := map[string]bool{}
	for _, c := range escape.Catalogue {
		if seen[c.ID] || c.Attack == "" {
			t.Errorf("%s is there twice or says nothing", c.ID)
		}
		seen[c.ID] = true
		if !slices.Contains(known, c.ID) && (!c.AMD64 || isAMD64) && c.Probed() {
			t.Errorf("%s is not in the probe", c.ID)
		}
	}
	for _, id := range known {
		if !seen[id] {
			t.Errorf("%s is not in the catalogue", id)
		}
	}
	if len(seen) < 150 {
		t.Errorf("the catalogue has %d cases only", len(seen))
	}
}
