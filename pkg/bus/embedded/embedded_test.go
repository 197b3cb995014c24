package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/bus/embedded"
	"kaged.dev/pkg/fault"
)

// publishVariable is the environment variable that turns this test binary into a process that publishes to a store
// until it is killed.
const publishVariable = "KAGED_NATS_PUBLISH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(publishVariable); dir != "" {
		fmt.Println(publishForever(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// publishForever prints the number of each frame after the acknowledgement.
func publishForever(dir string) error {
	_, frames, err := open(context.Background(), dir)
	for seq := int64(1); err == nil; seq++ {
		_, err = frames.Publish(
			context.Background(),
			bus.Batch{Session: "S1", Channel: "output", Epoch: 1, Seq: seq, Count: 1, Body: []byte("{}")},
		)
		fmt.Println(seq)
	}
	return err
}

func open(ctx context.Context, dir string) (*embedded.Server, *bus.Frames, error) {
	server, err := embedded.Start(embedded.Options{StoreDir: dir})
	if err != nil {
		return nil, nil, err
	}
	conn, err := bus.Connect(ctx, bus.Config{InProcess: server})
	if err != nil {
		return nil, nil, err
	}
	frames, err := bus.OpenFrames(ctx, conn, bus.FramesConfig{})
	return server, frames, err
}

func mustStart(t testing.TB, opts embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func mustFrames(t testing.TB, s *embedded.Server) *bus.Frames {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{InProcess: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	frames, err := bus.OpenFrames(t.Context(), conn, bus.FramesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

func publish(t testing.TB, f *bus.Frames, n int) {
	t.Helper()
	for seq := range int64(n) {
		_, err := f.Publish(
			t.Context(),
			bus.Batch{
				Session: "S" + strconv.FormatInt(seq%100, 10),
				Channel: "output",
				Seq:     seq,
				Count:   1,
				Body:    []byte(strings.Repeat("x", 200)),
			},
		)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func wantFault(t *testing.T, err error, words string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Unavailable || f.Details["subsystem"] != "bus" ||
		!strings.Contains(f.Msg, words) {
		t.Fatalf("got %v, want unavailable of the bus saying %q", err, words)
	}
}

// An acknowledged frame survives kill -9 of the server's process.
func TestAcknowledgedSurvivesAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), publishVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := int64(0)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		seq, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatalf("the other process says %q", lines.Text())
		}
		if acknowledged = seq; seq == 500 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	tail, found, err := mustFrames(t, mustStart(t, embedded.Options{StoreDir: dir})).Tail(t.Context(), "S1", "output")
	if err != nil || !found || tail.Seq < acknowledged || acknowledged < 500 {
		t.Errorf("%d frames were acknowledged and the last one stored is %d (%v, %v)", acknowledged, tail.Seq, found, err)
	}
}

// Only this process reaches the server, unless a test asks for a port; the port requires the token.
func TestNobodyAnswersAStranger(t *testing.T) {
	t.Parallel()
	s := mustStart(t, embedded.Options{StoreDir: t.TempDir()})
	if s.URL() != "" || s.Addr() != "" {
		t.Errorf("the server listens on %s", s.Addr())
	}
	open := mustStart(t, embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Token: "secret"})
	if _, err := nats.Connect("nats://" + open.Addr()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stranger got %v", err)
	}
	nc, err := nats.Connect(open.URL())
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	for _, listen := range []string{"127.0.0.1", "127.0.0.1:x"} {
		_, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), Listen: listen, Token: "secret"})
		wantFault(t, err, "host:port")
	}
	_, err = embedded.Start(embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	wantFault(t, err, "token")
}

// A start that cannot succeed fails at once with one sentence, and the process goes on.
func TestAStartThatCannotWorkIsTold(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := embedded.Start(embedded.Options{StoreDir: filepath.Join(file, "store")})
	wantFault(t, err, "cannot be made")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = embedded.Start(embedded.Options{StoreDir: t.TempDir(), Listen: taken.Addr().String(), Token: "secret"})
	wantFault(t, err, "did not start")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = embedded.Start(embedded.Options{StoreDir: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	wantFault(t, err, "NATS")
}

// Stop ends everything, may be repeated, and leaves a store that the next server can use.
func TestStoppingIsComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range 3 {
		s := mustStart(t, embedded.Options{StoreDir: dir})
		frames := mustFrames(t, s)
		if _, found, err := frames.Tail(t.Context(), "S1", "output"); err != nil || found != (n > 0) {
			t.Errorf("start %d finds a frame: %v, %v", n, found, err)
		}
		publish(t, frames, 10)
		s.Stop()
		s.Stop()
		if conn, err := s.InProcessConn(); err == nil {
			_ = conn.Close()
			t.Error("a stopped server takes connections")
		}
	}
}

// BenchmarkStart starts a server on ten minutes of frames.
func BenchmarkStart(b *testing.B) {
	for _, stored := range []int{0, 50_000} {
		b.Run(fmt.Sprint(stored), func(b *testing.B) {
			dir := b.TempDir()
			s := mustStart(b, embedded.Options{StoreDir: dir})
			publish(b, mustFrames(b, s), stored)
			s.Stop()
			for b.Loop() {
				s := mustStart(b, embedded.Options{StoreDir: dir})
				b.StopTimer()
				s.Stop()
				b.StartTimer()
			}
		})
	}
}
