package main

import (
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// A launcher that was stopped may read a request after its supervisor was killed. It continues to the end of the
// connection, and then removes the supervisor's remains.
func TestRequestOfAKilledSupervisor(t *testing.T) {
	t.Parallel()
	supervisor, theirs, err := frame.Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(theirs.Fd()))
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := frame.Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	plan, err := json.Marshal(blueprint.Launch{Cgroup: true}) // the device is not a cgroup, so that no init starts
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Send(frame.Frame{Op: frame.OpLaunch, Plan: plan}, int(null.Fd()), int(null.Fd())); err != nil {
		t.Fatal(err)
	}
	supervisor.Close()
	l := &launcher{conn: conn, supervisor: -1}
	if ordered, err := l.serve(); ordered || err != nil {
		t.Errorf("serve reports an end in order: %t, %v", ordered, err)
	}
}
