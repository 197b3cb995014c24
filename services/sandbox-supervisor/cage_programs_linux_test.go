package sandboxsupervisor_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/host"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
)

func init() { helpers["programs"] = helperPrograms }

// program is a typical use of a cage.
type program struct {
	name string
	// needs is a program installed by scripts/setup.sh test; optional means that it may be missing.
	needs    string
	optional bool
	// script is the command line, run in the folder work; its output must contain wants.
	script, wants string
	// relaxed means that it needs the system calls of debuggers: without them it must fail.
	relaxed bool
	// net lists the hosts that it must reach.
	net []string
}

// toolFiles are the project of the programs.
var toolFiles = map[string]string{
	"go/go.mod":  "module example.com/hello\n\ngo 1.21\n",
	"go/main.go": "package main\n\nfunc main() { println(sum(40, 2)) }\n\nfunc sum(a, b int) int { return a + b }\n",
	"go/main_test.go": "package main\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif sum(1, 2) != 3 " +
		"{\n\t\tt.Fatal()\n\t}\n}\n",
	"npm/package.json": `{"name":"app","version":"1.0.0","dependencies":{"left":"^1.0.0"}}` + "\n",
	"npm/app.js":       "console.log(require('left').say());\n",
	"c/program":        "",
	"python/main.py": "import hashlib, json, socket, subprocess, tempfile, threading\n" +
		"t = threading.Thread(target=lambda: None); t.start(); t.join()\n" +
		"open(tempfile.mkstemp()[1], 'w').write('x')\n" +
		"print(json.dumps({'sum': hashlib.sha256(b'x').hexdigest()[:8], 'sub': subprocess.check_output(['echo', " +
		"'hi']).decode().strip()}))\n",
}

// programs are the tested programs, with a registry at an address of the host.
func programs(registry string) []program {
	const gotools = `export GOCACHE="$PWD/../gocache" GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-buildvcs=false ` +
		`CGO_ENABLED=0; cd go; `
	return []program{
		{name: "go build", needs: "go", script: gotools + `go build -o hello . && ./hello 2>&1`, wants: "42"},
		{name: "go test", needs: "go", script: gotools + `go test ./...`, wants: "ok  \texample.com/hello"},
		{
			name: "git in a repository", needs: "git", wants: "second",
			script: `cd repository; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
echo two >two; git add two && git commit -qm second && git checkout -qb side && git status --short && git log --oneline && git stash list`,
		},
		{
			name: "git init", needs: "git", wants: "first",
			script: `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git init -q new && cd new && echo one >one && git add one && git commit -qm first && git log --oneline`,
		},
		{
			name: "npm install", needs: "npm", optional: true, net: []string{registry}, wants: "left, from the registry",
			script: `cd npm && npm install --no-audit --no-fund --fetch-retries=0 --registry=http://` + registry +
				`/ >npm.log 2>&1 || { cat npm.log; exit 1; }; node app.js`,
		},
		{name: "python", needs: "python3", script: `python3 python/main.py`, wants: `{"sum": "2d711642", "sub": "hi"}`},
		{
			name: "gdb", needs: "gdb", relaxed: true, wants: "exited normally",
			script: `gdb -q -nx -batch -ex 'break _exit' -ex run -ex 'info registers rip' -ex continue /bin/true 2>&1`,
		},
		{
			name: "dlv", needs: "dlv", relaxed: true, wants: "main.sum() ./main.go:5 (hits goroutine(1):1 total:1)",
			// Debian's debugger is older than the compiler: it prints a warning and cannot read values.
			script: gotools +
				`go build -gcflags='-N -l' -o debugged . && printf 'break main.sum\ncontinue\nregs\ncontinue\nexit\n' >dlv.txt &&
dlv exec --check-go-version=false --allow-non-terminal-interactive=true --init dlv.txt ./debugged 2>&1 </dev/null`,
		},
		{
			name:   "tar and find",
			needs:  "tar",
			script: `tar -cf all.tar go python && tar -tf all.tar | grep main.go && find . -name '*.py' | xargs wc -l`,
			wants:  "go/main.go",
		},
	}
}

// Real programs work in cages, for root and for an unprivileged user: compilers and their tests, git, npm with an
// allowed registry, interpreters. Debuggers work under relaxed only.
func TestProgramsInCages(t *testing.T) {
	t.Parallel()
	registry := startRegistry(t)
	// All programs share one cache of the compiled standard library.
	cache := t.TempDir()
	for _, e := range []environment{{name: "root", root: true}, {name: "user", uid: stranger}} {
		t.Run(e.name, func(t *testing.T) {
			if e.root && os.Getuid() != 0 {
				t.Skip("only root can be root")
			}
			uid := e.uid
			if os.Getuid() != 0 {
				uid = os.Getuid()
			}
			dir := place(t, uid)
			work := filepath.Join(dir, "project", "work")
			for name, text := range toolFiles {
				path := filepath.Join(work, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, command := range []string{
				"git init -q repository && cd repository && echo one >one && git add one && git -c user.name=a -c " +
					"user.email=a@example.com commit -qm one",
				"cp -a " + cache + "/. ../gocache 2>/dev/null || mkdir -p ../gocache",
				fmt.Sprintf("chown -R %d:%d ..", uid, uid),
			} {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
				cmd.Dir = work
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", command, err, out)
				}
			}
			e.helper = "programs"
			cmd, trouble := e.start(t, dir)
			cmd.Env = append(cmd.Env, "KAGED_TEST_REGISTRY="+registry)
			out, err := cmd.Output()
			if err != nil || trouble.Len() > 0 {
				t.Errorf("the supervisor ended with %v: %s", err, trouble)
			}
			results := map[string]ran{}
			for text := range bytes.Lines(out) {
				var r ran
				if err := json.Unmarshal(text, &r); err != nil {
					t.Errorf("%v: %s", err, text)
				}
				results[r.Name] = r
			}
			for _, p := range programs(registry) {
				t.Run(p.name, func(t *testing.T) {
					if _, err := exec.LookPath(p.needs); err != nil {
						if !p.optional {
							t.Fatalf("%s is not installed: scripts/setup.sh test", p.needs)
						}
						t.Skipf("%s is not installed, so it was not tried", p.needs)
					}
					r := results[p.name]
					if r.Code != 0 || !strings.Contains(r.Output, p.wants) {
						t.Errorf("it ended with %d %s: %s", r.Code, r.Refused, r.Output)
					}
					if p.relaxed &&
						(results[p.name+" strictly"].Code == 0 && strings.Contains(results[p.name+" strictly"].Output, p.wants) ||
							results[p.name+" strictly"].Name == "") {
						t.Errorf("without relaxed: %+v", results[p.name+" strictly"])
					}
				})
			}
			if err := os.CopyFS(cache, os.DirFS(filepath.Join(dir, "project", "gocache"))); err != nil && e.root {
				t.Error(err)
			}
		})
	}
}

// ran is the result of a program.
type ran struct {
	Name    string `json:"name"`
	Code    int32  `json:"code"`
	Output  string `json:"output"`
	Refused string `json:"refused,omitempty"`
}

// helperPrograms runs a supervisor and the programs in cages, in the project of KAGED_TEST_DIR.
func helperPrograms() {
	dir := os.Getenv("KAGED_TEST_DIR")
	h, err := host.New(host.Options{
		DataDir: ownDir(
			filepath.Join(dir, "data"),
		),
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Version: "0",
		Getenv: os.Getenv,
	}, sandboxsupervisor.Module)
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	must(h.Run(ctx, func() {
		defer stop()
		client := sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor"))
		out := json.NewEncoder(os.Stdout)
		for _, p := range programs(os.Getenv("KAGED_TEST_REGISTRY")) {
			if _, err := exec.LookPath(p.needs); err != nil {
				continue
			}
			try := func(name, profile string) {
				r := ran{Name: name}
				var text strings.Builder
				exit, err := caged(client, &sandboxsupervisorv1.ExecStart{
					Owner: &sandboxsupervisorv1.Owner{SessionId: "session"}, Argv: []string{"/bin/sh", "-c", p.script},
					Cwd: filepath.Join(dir, "project", "work"), ProjectRoot: filepath.Join(dir, "project"), MergeStderr: true,
					Env: map[string]string{"PATH": "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"},
					Cage: &commonv1.CagePolicy{Fs: []*commonv1.CageMount{
						{Mode: "rw", Path: "./work"}, {Mode: "rw", Path: "./gocache"},
					}, Seccomp: profile, State: "ephemeral", NetAllow: p.net},
				}, func(line []byte) { text.Write(line); text.WriteByte('\n') })
				r.Code, r.Output = exit.GetExitCode(), text.String()
				if err != nil {
					r.Code, r.Refused = -1, err.Error()
				}
				must(out.Encode(r))
			}
			if p.relaxed {
				try(p.name, "relaxed")
				try(p.name+" strictly", "default")
			} else {
				try(p.name, "default")
			}
		}
	}))
}

// startRegistry serves one npm package as registries do, on loopback, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"left","version":"1.0.0","main":"index.js"}`,
		"package/index.js":     "exports.say = () => 'left, from the registry';\n",
	} {
		if err := archive.WriteHeader(&tar.Header{
			Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg,
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(archive, text); err != nil {
			t.Fatal(err)
		}
	}
	archive.Close()
	zipped.Close()
	sum := sha512.Sum512(packed.Bytes())
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /left", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "left", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": "left", "version": "1.0.0", "dist": map[string]string{
					"tarball":   fmt.Sprintf("http://%s/left/-/left-1.0.0.tgz", l.Addr()),
					"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
				},
			}},
		})
	})
	routes.HandleFunc(
		"GET /left/-/left-1.0.0.tgz",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed.Bytes()) },
	)
	server := &http.Server{Handler: routes}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return l.Addr().String()
}
