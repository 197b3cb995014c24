//go:build unix

package handover_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/handover"
)

// takerSocket and takerTicket are the variables of this program as the taker of another process.
const takerSocket, takerTicket = "KAGED_TAKER_SOCKET", "KAGED_TAKER_TICKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(takerSocket); socket != "" {
		files, err := handover.Take(socket, os.Getenv(takerTicket))
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		// A file with a deadline: the mode of the pipe has crossed with it.
		if err := files[0].SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		files[0].WriteString("from the taker")
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// serve answers takers at a socket until the end of the test.
func serve(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := handover.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		handover.Serve(l)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return path
}

// A taker of the same process gets the same files, once.
func TestTakeHere(t *testing.T) {
	t.Parallel()
	_, w := pipe(t)
	offer := handover.New(w)
	files, err := handover.Take("", offer.Ticket())
	if err != nil || len(files) != 1 || files[0] != w {
		t.Fatalf("got %v, %v", files, err)
	}
	<-offer.Taken()
	if _, err := handover.Take("", offer.Ticket()); err == nil {
		t.Error("the files were taken twice")
	}
	if offer.Withdraw() {
		t.Error("a taken offer was withdrawn")
	}
}

// A taker of another process gets the files, and this process has closed its own: the pipe ends with the taker.
func TestTakeElsewhere(t *testing.T) {
	t.Parallel()
	socket := serve(t)
	r, w := pipe(t)
	offer := handover.New(w)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{takerSocket + "=" + socket, takerTicket + "=" + offer.Ticket()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the taker: %v: %s", err, out)
	}
	<-offer.Taken()
	if got, err := io.ReadAll(r); err != nil || string(got) != "from the taker" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Withdrawn files cannot be taken, and an unknown ticket or half of one is not answered.
func TestRefusals(t *testing.T) {
	t.Parallel()
	socket := serve(t)
	_, w := pipe(t)
	offer := handover.New(w)
	if !offer.Withdraw() {
		t.Fatal("the files were not taken, and the offer was not withdrawn")
	}
	if files, err := handover.Take(socket, offer.Ticket()); err == nil {
		t.Errorf("withdrawn files were taken: %v", files)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, offer.Ticket()[:5]); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
		t.Errorf("half a ticket was answered: %q, %v", got, err)
	}
	if _, err := handover.Take(filepath.Join(t.TempDir(), "missing"), offer.Ticket()); err == nil {
		t.Error("a missing socket gave files")
	}
}
