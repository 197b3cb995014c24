package sandboxsupervisor_test

import (
	"io"
	"os"
	"testing"

	"kaged.dev/pkg/handover"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

func share(s *sandboxsupervisorv1.ExecStart) { s.Share = true }

func (r *running) unshare() {
	r.send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Unshare{
		Unshare: &sandboxsupervisorv1.Unshare{},
	}})
}

// A caller takes the pipes of its command: it writes and reads them itself, the stream carries standard error and the
// end, and the command ends with its stream as ever.
func TestShared(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(t, client, shell(t, "echo err >&2; cat; exit 42", pipes, share))
	if info, err := os.Stat(r.started.GetSocket()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket for other processes: %v, %v", info, err)
	}
	files, err := handover.Take("", r.started.GetTicket())
	if err != nil || len(files) != 2 {
		t.Fatalf("taking: %v, %v", files, err)
	}
	if _, err := files[0].WriteString("through the pipe"); err != nil {
		t.Fatal(err)
	}
	r.write("dropped")
	r.closeStdin() // of the stream, which no longer has it
	r.unshare()    // too late
	if err := files[0].Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(files[1]); err != nil || string(got) != "through the pipe" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := files[1].Close(); err != nil {
		t.Fatal(err)
	}
	exit := r.wait()
	if exit.GetExitCode() != 42 || r.stdout.Len() > 0 || r.stderr.String() != "err\n" {
		t.Errorf("the end is %v, output %q and %q", exit, r.stdout.String(), r.stderr.String())
	}

	r = begin(t, client, shell(t, "cat", pipes, share))
	if files, err = handover.Take("", r.started.GetTicket()); err != nil {
		t.Fatal(err)
	}
	r.cancel()
	if got, err := io.ReadAll(files[1]); err != nil || len(got) > 0 {
		t.Errorf("after the end of the stream: %q, %v", got, err)
	}
	for _, f := range files {
		f.Close()
	}
}

// Pipes that no caller takes are relayed from unshare on, and at the end at the latest. A terminal is not shared.
func TestUnshared(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(t, client, shell(t, "cat", pipes, share))
	r.unshare()
	r.write("relayed")
	r.closeStdin()
	if r.wait(); r.stdout.String() != "relayed" {
		t.Errorf("output is %q", r.stdout.String())
	}
	if _, err := handover.Take("", r.started.GetTicket()); err == nil {
		t.Error("relayed pipes were taken")
	}
	r = begin(t, client, shell(t, "echo out", pipes, share))
	if r.wait(); r.stdout.String() != "out\n" {
		t.Errorf("output of an ended command is %q", r.stdout.String())
	}
	r = begin(t, client, shell(t, "echo out", share))
	if r.wait(); r.stdout.String() != "out\r\n" || r.started.GetTicket() != "" {
		t.Errorf("output of a terminal is %q, ticket %q", r.stdout.String(), r.started.GetTicket())
	}
}
