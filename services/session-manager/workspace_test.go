package sessionmanager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// asked returns a tool-runner's calls since the last asked, sorted and without repetitions.
func (r *toolRunner) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	slices.Sort(calls)
	return slices.Compact(calls)
}

// moveTo assigns a project to a workspace.
func (w *world) moveTo(project, workspace string) {
	w.t.Helper()
	admin := w.connect(w.owner)
	defer admin.Close(w.t.Context())
	if _, err := admin.Exec(w.t.Context(), "update session_manager.projects set workspace = $2 where id = $1", project,
		workspace); err != nil {
		w.t.Fatal(err)
	}
}

// Calls for a project or a session go to its own workspace and to no other: reading files, listing running
// commands, and ending a session. An operator's running commands are listed from all workspaces of the operator's
// sessions.
func TestEachWorkspaceIsAskedForItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	there := &toolRunner{}
	w.elsewhere = map[string]*toolRunner{"there": there}
	n := w.start("a")
	here := n.session("ada")
	w.moveTo("music", "there")
	w.tools.asked()
	if _, err := n.Projects.ReloadProject(as(t, "ada"), &apiv1.ReloadProjectRequest{Id: "music"}); err != nil {
		t.Fatal(err)
	}
	created, err := n.Sessions.CreateSession(as(t, "ada"), &apiv1.CreateSessionRequest{ProjectId: "music"})
	if err != nil {
		t.Fatal(err)
	}
	moved := created.GetId()
	w.tools.runs, there.runs = []string{here}, []string{moved}
	for _, step := range []struct {
		name        string
		do          func() error
		here, moved []string
	}{
		{"reload", func() error { return nil }, nil, []string{"read"}},
		{"list of the session here", n.listing(here, here), []string{"listed " + here}, nil},
		{"list of the session there", n.listing(moved, moved), nil, []string{"listed " + moved}},
		{"list of all", n.listing("", here, moved), []string{"listed "}, []string{"listed "}},
		{"end of the session there", n.ending(moved), nil, []string{"ended " + moved}},
		{"end of the session here", n.ending(here), []string{"ended " + here}, nil},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if d := cmp.Diff(step.here, w.tools.asked()); d != "" {
			t.Errorf("%s: calls of the default workspace (-want +got):\n%s", step.name, d)
		}
		if d := cmp.Diff(step.moved, there.asked()); d != "" {
			t.Errorf("%s: calls of the other workspace (-want +got):\n%s", step.name, d)
		}
	}
}

// listing lists the running commands of a session, or of all, and expects processes of the given sessions.
func (n *node) listing(session string, want ...string) func() error {
	return func() error {
		resp, err := n.Sessions.ListProcesses(as(n.w.t, "ada"), &apiv1.ListProcessesRequest{SessionId: session})
		var got []string
		for _, p := range resp.GetProcesses() {
			got = append(got, p.GetSessionId())
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("got processes of %q, want of %q", got, want)
		}
		return err
	}
}

func (n *node) ending(session string) func() error {
	return func() error {
		_, err := n.Sessions.EndSession(as(n.w.t, "ada"), &apiv1.EndSessionRequest{Id: session, Confirm: true})
		return err
	}
}

// An unknown workspace is refused with its name; its sessions can be ended.
func TestUnknownWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	n.session("ada")
	w.moveTo("music", "nowhere")
	created, err := n.Sessions.CreateSession(as(t, "ada"), &apiv1.CreateSessionRequest{ProjectId: "music"})
	if err != nil {
		t.Fatal(err)
	}
	_, reload := n.Projects.ReloadProject(as(t, "ada"), &apiv1.ReloadProjectRequest{Id: "music"})
	for name, err := range map[string]error{"reload": reload, "list": n.listing(created.GetId())()} {
		f := refused(t, err, fault.Unavailable)
		if !strings.Contains(f.Msg, `The workspace "nowhere" cannot be reached`) || f.Details["subsystem"] != "tool-runner" {
			t.Errorf("%s: got %q with %v, want the name of the workspace and the subsystem tool-runner", name, f.Msg, f.Details)
		}
	}
	if err := n.ending(created.GetId())(); err != nil {
		t.Errorf("ending the session: %v", err)
	}
}

// Ended sessions of an unreachable workspace do not keep other workspaces from being told.
func TestWorkspaceThatStaysAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	there := &toolRunner{}
	w.elsewhere = map[string]*toolRunner{"there": there}
	n := w.start("a", func(c *Config) { c.ToolsTimeout = config.Duration(1) })
	lost := n.session("ada")
	w.moveTo("music", "there")
	kept := n.session("ada")
	w.tools.leave(true)
	there.leave(true)
	for _, s := range []string{lost, kept} {
		if err := n.ending(s)(); err != nil {
			t.Fatal(err)
		}
	}
	n.Stop()
	there.leave(false)
	w.start("b")
	eventually(t, "the workspace that is back hears of its session", func() error {
		there.mu.Lock()
		defer there.mu.Unlock()
		if !slices.Contains(there.ended, kept) {
			return errors.New("it has not")
		}
		return nil
	})
}
