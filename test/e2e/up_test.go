package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// kaged up on an empty data directory starts its own stores, prints one line when it serves, and leaves no process or
// file afterwards.
func TestUpAndDown(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	d := w.Up(t, nil)
	var info struct {
		PID          int
		URL, Version string
	}
	path := filepath.Join(w.DataDir, "run", "daemon.json")
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &info) != nil || info.PID != d.PID() ||
		!strings.HasPrefix(d.LaunchURL, info.URL+"/api/v1/launch?token=") {
		t.Errorf("daemon.json is %s (%v), the line named %s", data, err, d.LaunchURL)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("daemon.json: %v %v", st, err)
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/api/versions": 200, "/": 200, "/api/v1/me": 401, "/api/v1/nothing": 404,
	} {
		resp, err := http.Get(info.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, resp.StatusCode, want)
		}
	}
	second := kagedtest.Command(t, "kaged", w.Env, "up", "--listen", "127.0.0.1:0")
	if _, code := second.Rest(t); code != 3 ||
		!strings.Contains(second.Stderr.String(), "data directory "+w.DataDir+" is in use by kaged pid ") {
		t.Errorf("a second daemon ended with %d and said %q", code, second.Stderr)
	}
	for dir, want := range map[string]string{
		"/no/such": "There is no folder /no/such. (not_found)", w.Dir: "There is no .kaged/project.yaml in " + w.Dir + ". ",
	} {
		p := kagedtest.Command(t, "kaged", w.Env, "run", "--project", dir, "x")
		if _, code := p.Rest(t); code != 2 || !strings.Contains(p.Stderr.String(), want) {
			t.Errorf("kaged run in %s ended with %d and said %q", dir, code, p.Stderr)
		}
	}
	d.Signal(syscall.SIGINT)
	if out, code := d.Rest(t); code != 0 || out != "" {
		t.Errorf("the daemon ended with %d and said %q more on stdout", code, out)
	}
	if left := kagedtest.Running(t, w.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	entries, err := os.ReadDir(filepath.Join(w.DataDir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // lock files stay
		if !strings.HasSuffix(e.Name(), "lock") {
			t.Errorf("left in run: %s", e.Name())
		}
	}
}

// kill -9 of the daemon ends Postgres and every command, and the next start finds all data.
func TestKillLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(fakellm.Step{
		fakellm.Tool("shell.bash", `{"command":"echo started; trap '' TERM HUP; setsid sleep 1000 & sleep 1000"}`),
	}))
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	d := w.Up(t, nil)
	s := kagedtest.Open(t, w.SignIn(t), dir)
	s.Send(t, "sleep")
	s.Until(t, "message.tool_output")
	d.Kill()
	kagedtest.Eventually(t, "nothing runs", func() bool { return len(kagedtest.Running(t, w.Dir)) == 0 })
	w.Up(t, nil)
	c := w.SignIn(t)
	kagedtest.Eventually(t, "the session is idle", func() bool {
		return kagedtest.Get[struct{ State string }](t, c, "/api/v1/sessions/"+s.ID).State == "idle"
	})
}

// The second Ctrl-C does not wait for running work. The next start finds all acknowledged data.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("shell.bash", `{"command":"echo started; sleep 1000"}`)}))
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	env := databaseEnv(t)
	d := w.Up(t, env)
	s := kagedtest.Open(t, w.SignIn(t), w.Project(t))
	s.Send(t, "sleep")
	s.Until(t, "message.tool_output")
	for range 2 {
		d.Signal(syscall.SIGINT)
		kagedtest.Eventually(t, "it says that it stops", func() bool {
			return strings.Contains(d.Stderr.String(), "press Ctrl-C again to stop now")
		})
	}
	if _, code := d.Rest(t); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
	took := regexp.MustCompile(`msg=stopped took=(\S+)`).FindStringSubmatch(d.Stderr.String())
	if took == nil {
		t.Fatal("the log does not say that it stopped")
	}
	if d, err := time.ParseDuration(took[1]); err != nil || d >= 10*time.Second {
		t.Errorf("it stopped after %s, %v; the grace of one service alone is ten seconds", took[1], err)
	}
	w.Up(t, env)
	c := w.SignIn(t)
	if page := kagedtest.Get[messagePage](t, c, "/api/v1/sessions/"+s.ID+"/messages"); len(page.Items) != 2 ||
		page.Items[0].Content != "sleep" {
		t.Errorf("messages: %+v", page.Items)
	}
}

// A command waits for a starting daemon, and ignores the files of a killed one.
func TestCommandsWaitForADaemonThatStarts(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	env := databaseEnv(t)
	d := w.Up(t, env)
	d.Kill()
	<-d.Done()
	next := kagedtest.Command(t, "kaged", append(append([]string{}, w.Env...), env...), "up", "--listen", "127.0.0.1:0")
	kagedtest.Eventually(t, "the next has begun", func() bool {
		data, err := os.ReadFile(filepath.Join(w.DataDir, "run", "lock"))
		return err == nil && strings.TrimSpace(string(data)) == strconv.Itoa(next.PID())
	})
	launch := kagedtest.Command(t, "kaged", w.Env, "auth", "launch")
	out, code := launch.Rest(t)
	if code != 0 || !strings.Contains(out, "/api/v1/launch?token=") {
		t.Errorf("kaged auth launch ended with %d and said %q, %q", code, out, launch.Stderr)
	}
	ready, _, _ := strings.Cut(strings.TrimPrefix(next.Line(t), "kaged ready "), "/api/")
	if !strings.HasPrefix(out, ready+"/api/") {
		t.Errorf("the launch URL is %q, the daemon's address %q", out, ready)
	}
}

// Two commands without a daemon share the daemon that the first has started, and it stays until both are done. Each
// prints once that the configuration itself has a key (H-PROV-CRED-02).
func TestCommandsShareADaemon(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	held := map[string]chan struct{}{"first": make(chan struct{}), "second": make(chan struct{})}
	asked := make(chan string, 2)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		asked <- r.LastText()
		<-held[r.LastText()]
		return fakellm.Step{fakellm.Say("Done with " + r.LastText() + ".")}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	env := append(append([]string{}, w.Env...), databaseEnv(t)...)
	commands := map[string]*kagedtest.Process{}
	for _, name := range []string{"first", "second"} {
		commands[name] = kagedtest.Command(t, "kaged", env, "run", "--project", dir, name)
		select {
		case got := <-asked:
			if got != name {
				t.Fatalf("the model was asked %q", got)
			}
		case <-time.After(kagedtest.Limit):
			t.Fatalf("the %s never asked the model: %s", name, commands[name].Stderr)
		}
	}
	close(held["first"])
	kagedtest.Eventually(t, "the first waits for the second", func() bool {
		return strings.Contains(commands["first"].Stderr.String(), "another command uses this daemon")
	})
	close(held["second"])
	for name, p := range commands {
		if out, code := p.Rest(t); code != 0 || out != "Done with "+name+".\n" {
			t.Errorf("the %s ended with %d and said %q, %q", name, code, out, p.Stderr)
		}
		if said := p.Stderr.String(); strings.Count(said, "providers.fake.api_key") != 1 ||
			strings.Contains(said, "sk-test") {
			t.Errorf("of the key in the configuration the %s says %q", name, said)
		}
	}
	if strings.Contains(commands["second"].Stderr.String(), "starting") {
		t.Error("the second started a daemon of its own")
	}
}

// A launch URL signs one browser in, once. The command line does not use it up, but gets its own.
func TestLaunch(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	d := w.Up(t, databaseEnv(t))
	w.SignIn(t)
	fresh, code := kagedtest.Command(t, "kaged", w.Env, "auth", "launch").Rest(t)
	if code != 0 {
		t.Fatalf("kaged auth launch ended with %d", code)
	}
	noRedirect := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, url := range []string{d.LaunchURL, strings.TrimSpace(fresh)} {
		for _, want := range []int{302, 401} {
			resp, err := noRedirect.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("GET of the launch URL = %d, want %d", resp.StatusCode, want)
			}
		}
	}
}

// --insecure is reported in every output, and the base URL is printed.
func TestInsecure(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	d := w.Up(t, databaseEnv(t), "--insecure", "--no-sandbox")
	resp, err := http.Get(d.LaunchURL + "/api/v1/me")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var me struct {
		Daemon struct{ Warnings []string }
	}
	if json.NewDecoder(resp.Body).Decode(&me) != nil ||
		resp.Header.Get("X-Kaged-Warning") != "insecure-mode, no-sandbox" &&
			resp.Header.Get("X-Kaged-Warning") != "insecure-mode,no-sandbox" || len(me.Daemon.Warnings) != 2 {
		t.Errorf("warnings: %v, header %q", me.Daemon.Warnings, resp.Header.Get("X-Kaged-Warning"))
	}
}

// A daemon that cannot start prints the reason in one sentence and exits with 1; invalid arguments exit with 2.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		toml string
		args []string
		code int
		want string
	}{
		"configuration": {"[models]\nfast = 3\n", []string{"up"}, 1, "local.toml:2:1: models.fast"},
		"database": {
			"", []string{"up", "--database-url", "postgres://nobody@127.0.0.1:1/none?connect_timeout=1"}, 1, "(unavailable)",
		},
		"flag":      {"", []string{"up", "--nonsense"}, 2, "there is no flag --nonsense"},
		"command":   {"", []string{"nonsense"}, 2, "there is no command"},
		"no prompt": {"", []string{"run"}, 2, "a prompt is needed"},
		"no address": {
			"",
			[]string{"up", "--listen", "192.0.2.1:1"},
			1,
			"The gateway cannot listen on 192.0.2.1:1: cannot assign requested address.",
		},
		"no daemon": {"", []string{"auth", "launch"}, 1, "start one with `kaged up`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kagedtest.NewWorld(t, c.toml)
			p := kagedtest.Command(t, "kaged", w.Env, c.args...)
			if _, code := p.Rest(t); code != c.code || !strings.Contains(p.Stderr.String(), c.want) {
				t.Errorf("ended with %d and said %q", code, p.Stderr)
			}
		})
	}
}
