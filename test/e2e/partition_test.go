package e2e_test

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// link is the network between one process and a store. While it is cut it carries nothing and breaks no connection, as
// a network that drops packets. Once it is mended it delivers what was written meanwhile.
//
// Goroutines: one that accepts, and two for each connection, until the end of the test.
type link struct {
	net.Listener
	network, backend string

	mu     sync.Mutex
	mended *sync.Cond // with mu: is not cut
	isCut  bool
	open   []net.Conn
}

func newLink(t *testing.T, network, backend string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &link{Listener: l, network: network, backend: backend}
	w.mended = sync.NewCond(&w.mu)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.pass(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut(false)
		w.mu.Lock()
		for _, c := range w.open {
			c.Close()
		}
		w.mu.Unlock()
		serving.Wait()
	})
	return w
}

// cut stops the link, or mends it.
func (w *link) cut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = cut
	w.mended.Broadcast()
}

// wait returns when the link is whole.
func (w *link) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.isCut {
		w.mended.Wait()
	}
}

func (w *link) pass(from net.Conn) {
	w.wait()
	to, err := net.Dial(w.network, w.backend)
	if err != nil {
		from.Close()
		return
	}
	w.mu.Lock()
	w.open = append(w.open, from, to)
	w.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); w.copy(to, from) }()
	w.copy(from, to)
	<-done
}

// copy carries bytes in one direction. Both ends close with it, but not before the link is whole.
func (w *link) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.wait()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	to.Close()
	from.Close()
}

// links are the networks between a process and its stores.
type links struct{ postgres, nats *link }

// linked returns links to Postgres and NATS, and the environment of a process that reaches them by these links.
func (f *fleet) linked(t *testing.T) (w links, env []string) {
	t.Helper()
	for _, v := range f.shared {
		name, value, _ := strings.Cut(v, "=")
		u, err := url.Parse(value)
		switch {
		case err != nil:
		case strings.HasPrefix(name, "KAGED_DATABASE_"):
			q := u.Query()
			if w.postgres == nil {
				w.postgres = newLink(t, "unix", filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port")))
			}
			host, port, _ := net.SplitHostPort(w.postgres.Addr().String())
			q.Set("host", host)
			q.Set("port", port)
			u.RawQuery = q.Encode()
			env = append(env, name+"="+u.String())
		case name == "KAGED_NATS_URL":
			w.nats = newLink(t, "tcp", u.Host)
			u.Host = w.nats.Addr().String()
			env = append(env, name+"="+u.String())
		}
	}
	if w.postgres == nil || w.nats == nil {
		t.Fatal("a store has no URL")
	}
	return w, env
}

// startLinked starts a fleet. Its first session-manager reaches Postgres and NATS by the returned links.
func startLinked(t *testing.T, llm *fakellm.Server) (*fleet, links) {
	t.Helper()
	f := startFleet(t, llm, 2, "[services.session-manager]\nlease_ttl = \"2s\"\n")
	id := replicaOf("session-manager", 0)
	f.drain(t, id)
	w, env := f.linked(t)
	direct := f.shared
	f.shared = append(append([]string{}, direct...), env...)
	f.add(t, id)
	f.shared = direct
	kagedtest.Eventually(t, "the gateway reaches the new process", func() bool {
		c, err := client.SignIn(t.Context(), f.socket(replicaOf("gateway", 0)))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return f, w
}

// A holder that only Postgres is cut from cannot write, though its harness and NATS still answer: the next holder ends
// its run. Nothing that the old one does until the network is whole again, and nothing of what arrives then, is seen.
func TestAHolderWithoutPostgresCannotWrite(t *testing.T) {
	t.Parallel()
	partition(t, func(w links, cut bool) { w.postgres.cut(cut) })
}

// The same with a holder that both stores are cut from.
func TestAHolderWithoutStoresCannotWrite(t *testing.T) {
	t.Parallel()
	partition(t, func(w links, cut bool) { w.postgres.cut(cut); w.nats.cut(cut) })
}

func partition(t *testing.T, cut func(w links, cut bool)) {
	t.Helper()
	gate := fakellm.NewGate()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(
		fakellm.Step{fakellm.Say("Half"), fakellm.Wait(gate), fakellm.Say(" done by the old holder.")},
		fakellm.Step{fakellm.Say("Again.")}, fakellm.Step{fakellm.Say("And again.")}))
	f, network := startLinked(t, llm)
	defer gate.Open()
	w := &busy{Session: kagedtest.Open(t, f.signIn(t), f.Project(t))}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	closeWith(ctx, w.Socket)
	run := w.post(ctx, t, "look around")
	if err := gate.Reached(ctx); err != nil {
		t.Fatal(err)
	}
	f.add(t, replicaOf("session-manager", 1))
	cut(network, true)
	if outcome, why := w.finish(ctx, t, run); outcome != "failed" {
		t.Errorf("the run %s: %s", outcome, why)
	}
	gate.Open()
	kagedtest.Eventually(t, "the harness of the old holder ends the answer", func() bool {
		return strings.Contains(f.process(replicaOf("harness", 0)).Stderr.Tail(50), "agent.generation")
	})
	cut(network, false)
	f.serves(t, replicaOf("session-manager", 0))
	if outcome, why := w.finish(ctx, t, w.post(ctx, t, "and again")); outcome != "completed" {
		t.Errorf("the next run %s: %s", outcome, why)
	}
	if outcome, why := w.finish(ctx, t, w.post(ctx, t, "and once more")); outcome != "completed" {
		t.Errorf("the run after the partition %s: %s", outcome, why)
	}
	w.check(t)
	for _, frame := range w.Frames {
		if strings.Contains(string(frame.Raw), "by the old holder") {
			t.Errorf("the old holder wrote %s", frame.Raw)
		}
	}
}

// A holder that only NATS is cut from keeps its lease, because Postgres decides who writes. Its run ends, and once the
// network is whole each frame is there once, in its place.
func TestAHolderWithoutNATSKeepsItsFrames(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(
		fakellm.Step{fakellm.Say("Half"), fakellm.Wait(gate), fakellm.Say(" done.")},
		fakellm.Step{fakellm.Say("Again.")}))
	f, network := startLinked(t, llm)
	defer gate.Open()
	w := &busy{Session: kagedtest.Open(t, f.signIn(t), f.Project(t))}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	closeWith(ctx, w.Socket)
	run := w.post(ctx, t, "look around")
	if err := gate.Reached(ctx); err != nil {
		t.Fatal(err)
	}
	network.nats.cut(true)
	gate.Open()
	kagedtest.Eventually(t, "the run ends without NATS", func() bool {
		var s struct{ State string }
		err := w.Client.Do(ctx, "GET", "/api/v1/sessions/"+w.ID, nil, &s)
		return err == nil && s.State == "idle"
	})
	network.nats.cut(false)
	if outcome, why := w.finish(ctx, t, run); outcome != "completed" {
		t.Errorf("the run %s: %s", outcome, why)
	}
	if outcome, why := w.finish(ctx, t, w.post(ctx, t, "and again")); outcome != "completed" {
		t.Errorf("the next run %s: %s", outcome, why)
	}
	w.check(t)
}
