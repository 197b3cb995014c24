package dappool_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/fault"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// patientProgram records its process id in its cage, and counts.
const patientProgram = `package main

import (
	"os"
	"strconv"
	"time"
)

var rounds int

func main() {
	if os.WriteFile("pid", []byte(strconv.Itoa(os.Getpid())), 0o644) != nil {
		os.Exit(9)
	}
	for {
		rounds++
		time.Sleep(10 * time.Millisecond)
	}
}
`

// built returns a program that is built without a cage, with its variables and lines.
func (b *bench) built(source string) string {
	b.t.Helper()
	b.write("go.mod", "module example.com/built\n\ngo 1.24\n")
	b.write("main.go", source)
	at := filepath.Join(b.root, "built")
	cmd := exec.CommandContext(b.t.Context(), "go", "build", "-gcflags=all=-N -l", "-o", at, ".")
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	return at
}

// T-DBG-DISC-01: an agent detaches from a program that it attached to. The adapter ends. The program, a background
// process of the session, continues in its cage.
func TestProgramGoesOnAfterTheDebugger(t *testing.T) {
	t.Parallel()
	b := serve(t).caged("relaxed")
	program := b.built(patientProgram)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := b.sandbox.Exec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	start := &sandboxsupervisorv1.ExecStart{
		Owner: &sandboxsupervisorv1.Owner{SessionId: "session", ProjectId: "project"}, Argv: []string{program}, Cwd: b.root,
		Env: b.environment(nil), Cage: b.cage, CageId: b.cageID, ProjectRoot: b.root,
	}
	err = stream.Send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start}})
	if err != nil {
		t.Fatal(err)
	}
	started, err := stream.Recv()
	if err != nil {
		t.Fatal(fault.From(err))
	}
	var inside int
	eventually(t, "the program runs", func() bool {
		text, err := os.ReadFile(filepath.Join(b.root, "pid"))
		inside, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && inside > 0
	})
	state, err := b.start("go", "", func(r *dappoolv1.StartRequest) {
		r.Attach, r.ProcessId, r.TimeoutMs = true, int32(inside), 1
	})
	if err != nil {
		t.Fatal(fault.From(err), fault.From(err).Details)
	}
	if paused := b.do(dappoolv1.Action_ACTION_PAUSE, nil); paused.GetState().GetStatus() != "stopped" {
		t.Errorf("it begins as %v and pauses as %v", state, paused.GetState())
	}
	adapter := b.adapter()
	res := b.do(dappoolv1.Action_ACTION_DISCONNECT, func(r *dappoolv1.ActRequest) { r.TerminateDebuggee = false })
	if res.GetDebuggeeTerminated() {
		t.Errorf("the answer is %v", res)
	}
	if err := syscall.Kill(int(adapter), 0); err == nil {
		t.Error("the adapter goes on")
	}
	pid := int(started.GetStarted().GetPid())
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil || !strings.Contains(string(status), "TracerPid:\t0") || strings.Contains(string(status), "State:\tT") {
		t.Errorf("the program is %s, %v", status, err)
	}
}
