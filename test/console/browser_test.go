package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/services/kaged"
	"kaged.dev/test/e2e/kagedtest"
)

// world is a kaged with a fake model and a project.
type world struct {
	*kagedtest.World
	daemon *kagedtest.Daemon
	api    *client.Client
	model  *fakellm.Server
	dir    string
	env    []string
	listen string
	// owner is the database's URL for the database's owner.
	owner string
}

// start runs a kaged with a fake model. toml is added to its configuration.
func start(t testing.TB, answers fakellm.Func, toml ...string) *world {
	t.Helper()
	owner, app := kagedtest.Database(t, kaged.Modules())
	w := &world{model: fakellm.Start(t), env: []string{
		"KAGED_DATABASE_URL=" + owner,
		"KAGED_DATABASE_APP_URL=" + app,
	}, listen: testkit.Address(), owner: owner}
	if answers != nil {
		w.model.Handle(answers)
	}
	w.World = kagedtest.NewWorld(t, kagedtest.FakeModels(w.model, "anthropic")+strings.Join(toml, ""))
	w.dir = w.Project(t)
	w.up(t)
	return w
}

// up starts the daemon, always at the same address.
func (w *world) up(t testing.TB) {
	t.Helper()
	d := w.Up(t, w.env, "--listen", w.listen)
	w.daemon = d
	// The machine's report creates a cage; a daemon that is asked to stop removes its control groups.
	t.Cleanup(func() {
		d.Signal(syscall.SIGTERM)
		select {
		case <-d.Done():
		case <-time.After(kagedtest.Limit):
		}
	})
	w.api = w.SignIn(t)
}

func (w *world) do(t testing.TB, method, path string, in, out any) {
	t.Helper()
	if err := w.api.Do(t.Context(), method, path, in, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// session creates a session of the project, and posts a text to it unless the text is empty.
func (w *world) session(t testing.TB, name, text string) string {
	t.Helper()
	w.do(t, http.MethodPost, "/api/v1/projects/load", map[string]any{"path": w.dir}, nil)
	var made struct{ ID string }
	w.do(t, http.MethodPost, "/api/v1/projects/wordcount/sessions", map[string]any{"name": name}, &made)
	if text != "" {
		w.do(t, http.MethodPost, "/api/v1/sessions/"+made.ID+"/messages", map[string]any{"content": text}, nil)
	}
	return made.ID
}

// idle waits until a session's run is over.
func (w *world) idle(t testing.TB, id string) {
	t.Helper()
	kagedtest.Eventually(t, "the run is over", func() bool {
		var session struct{ State string }
		w.do(t, http.MethodGet, "/api/v1/sessions/"+id, nil, &session)
		return session.State == "idle" || session.State == "failed"
	})
}

// launch returns a further link that signs a browser in.
func (w *world) launch(t testing.TB) string {
	t.Helper()
	return kagedtest.Command(t, "kaged", append(append([]string{}, w.Env...), w.env...), "auth", "launch").Line(t)
}

// git runs git in the project's folder.
func (w *world) git(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// browser is a Chromium with rules: an error on its console or a violation of the content policy fails the test.
type browser struct {
	ctx context.Context
}

// newBrowser starts a browser and signs it in.
func newBrowser(t testing.TB, w *world) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1280, 800))
	alloc, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	b := open(t, alloc)
	b.run(t, "sign in", chromedp.Navigate(w.daemon.LaunchURL), chromedp.WaitVisible(chromedp.CSS(".inbox")))
	return b
}

// tab opens another tab of the same browser.
func (b *browser) tab(t testing.TB) *browser {
	t.Helper()
	return open(t, b.ctx)
}

// expected are messages of the browser about requests that the tests cause to fail.
var expected = []string{"Failed to load resource", "WebSocket connection to", "net::ERR_"}

// open opens a tab with these rules.
func open(t testing.TB, parent context.Context) *browser {
	t.Helper()
	var mu sync.Mutex
	var wrong []string
	note := func(text string) {
		for _, one := range expected {
			if strings.Contains(text, one) {
				return
			}
		}
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, text)
	}
	ctx := newTab(t, parent, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			text := ev.ExceptionDetails.Text
			if thrown := ev.ExceptionDetails.Exception; thrown != nil {
				text += " " + thrown.Description
			}
			note("exception: " + text)
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning {
				note(fmt.Sprintf("console.%s: %v", ev.Type, ev.Args))
			}
		case *cdplog.EventEntryAdded:
			if ev.Entry.Level == cdplog.EntryLevelError {
				note("log: " + ev.Entry.Text)
			}
		case *page.EventJavascriptDialogOpening:
			note("dialog: " + ev.Message)
		}
	})
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, one := range wrong {
			t.Errorf("the page: %s", one)
		}
	})
	return &browser{ctx: ctx}
}

// newTab opens a tab with a listener, and the browser for it if parent has none. Chromium may crash while it starts
// on a busy machine, before it has seen a page, so it gets three attempts.
func newTab(t testing.TB, parent context.Context, listener func(any)) context.Context {
	t.Helper()
	enable := func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, cdplog.Enable, cdp.Empty{})
		return chromedp.Void{}, err
	}
	var err error
	for range 3 {
		ctx, cancel := chromedp.NewContext(parent, chromedp.WithListener(listener))
		if err = chromedp.Do(ctx, enable); err == nil {
			t.Cleanup(cancel)
			return ctx
		}
		cancel()
		if !strings.Contains(err.Error(), "chrome failed to start") {
			break
		}
		t.Logf("Chromium starts again: %v", err)
	}
	t.Fatalf("the browser does not start (scripts/setup.sh test installs Chromium): %v", err)
	return nil
}

// step is an action of a browser.
type step = chromedp.Action[chromedp.Void]

func (b *browser) run(t testing.TB, what string, actions ...step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, kagedtest.Limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("%s: %v\nthe page:\n%s", what, err, b.text())
	}
}

// text returns the visible text of the page.
func (b *browser) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, kagedtest.Limit)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
	return text
}

func (b *browser) open(t testing.TB, w *world, path string) {
	t.Helper()
	b.run(t, "open "+path, chromedp.Navigate("http://"+w.listen+path), chromedp.WaitVisible(chromedp.CSS("#main")))
}

// until waits until an expression of the page is true.
func (b *browser) until(t testing.TB, what, expression string) {
	t.Helper()
	eval[bool](t, b, "/* "+strings.ReplaceAll(what, "*/", "")+` */ new Promise(done => {
		const look = () => {
			let yes = false
			try { yes = (`+expression+`) } catch {}
			yes ? done(true) : setTimeout(look, 30)
		}
		look()
	})`)
}

// shows waits until the page shows a text.
func (b *browser) shows(t testing.TB, text string) {
	t.Helper()
	b.until(t, "the page shows "+text, "document.body.innerText.includes("+quoted(text)+")")
}

func (b *browser) hides(t testing.TB, text string) {
	t.Helper()
	b.until(t, "the page no longer shows "+text, "!document.body.innerText.includes("+quoted(text)+")")
}

func quoted(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

// eval returns the value of an expression in the page; it awaits a promise.
func eval[T any](t testing.TB, b *browser, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, kagedtest.Limit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%.300s: %v\nthe page:\n%s", expression, err, b.text())
	}
	return value
}

// size sets the size of the window and the colour scheme.
func (b *browser) size(t testing.TB, width, height int64, scheme string) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	b.run(t, "size", chromedp.EmulateViewport(width, height), func(ctx context.Context,
		target *chromedp.Target,
	) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, media)
		return chromedp.Void{}, err
	})
}

// picture takes a screenshot if the environment names a folder for screenshots.
func (b *browser) picture(t testing.TB, name string) {
	t.Helper()
	dir := os.Getenv("KAGED_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// axe returns the accessibility checker that npm has installed with the console.
func axe(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../services/gateway/web/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("axe-core is missing; type  scripts/setup.sh test: %v", err)
	}
	return string(text)
}

// accessible fails the test for each violation of WCAG 2.2 AA on the page.
func (b *browser) accessible(t testing.TB, name, checker string) {
	t.Helper()
	eval[bool](t, b, "window.axe ? true : (("+"() => {"+checker+"\n; return true})())")
	found := eval[[]string](t, b, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa",
		"wcag22aa"], resultTypes: ["violations"]})
		.then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target.join(" ") + " " +
			n.failureSummary)))`)
	for _, one := range found {
		t.Errorf("%s: %s", name, one)
	}
}
