package sandboxsupervisor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// ownedBy gives a command another owner.
func ownedBy(o *sandboxsupervisorv1.Owner) func(*sandboxsupervisorv1.ExecStart) {
	return func(s *sandboxsupervisorv1.ExecStart) { s.Owner = o }
}

// Background processes of a session, a run and a project end with their owner, and are listed for each of them.
func TestProcessesEndWithTheirOwners(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		client := serve(t, set)
		names := map[string]string{}
		start := func(name string, owner *sandboxsupervisorv1.Owner) {
			names[detach(t, client, shell(t, "sleep 1000", ownedBy(owner))).id] = name
		}
		start("session", &sandboxsupervisorv1.Owner{SessionId: "s", RunId: "r", ProjectId: "p"})
		start(
			"run",
			&sandboxsupervisorv1.Owner{
				Kind:      sandboxsupervisorv1.OwnerKind_OWNER_KIND_RUN,
				SessionId: "s",
				RunId:     "r",
				ProjectId: "p",
			},
		)
		start(
			"next run",
			&sandboxsupervisorv1.Owner{
				Kind:      sandboxsupervisorv1.OwnerKind_OWNER_KIND_RUN,
				SessionId: "s",
				RunId:     "r2",
				ProjectId: "p",
			},
		)
		start("project", &sandboxsupervisorv1.Owner{Kind: sandboxsupervisorv1.OwnerKind_OWNER_KIND_PROJECT, ProjectId: "p"})
		start("other project", &sandboxsupervisorv1.Owner{ProjectId: "p2"})
		listed := func(req *sandboxsupervisorv1.ListProcessesRequest) []string {
			res, err := client.ListProcesses(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, p := range res.GetProcesses() {
				found = append(found, names[p.GetExecId()])
			}
			slices.Sort(found)
			return found
		}
		if got, want := listed(&sandboxsupervisorv1.ListProcessesRequest{ProjectId: "p"}),
			[]string{"next run", "project", "run", "session"}; !slices.Equal(
			got,
			want,
		) {
			t.Errorf("the project's list: got %q, want %q", got, want)
		}
		if got, want := listed(&sandboxsupervisorv1.ListProcessesRequest{SessionId: "s"}),
			[]string{"next run", "run", "session"}; !slices.Equal(
			got,
			want,
		) {
			t.Errorf("the session's list: got %q, want %q", got, want)
		}
		for _, step := range []struct {
			req    *sandboxsupervisorv1.EndOwnerRequest
			killed int32
			left   []string
		}{
			{&sandboxsupervisorv1.EndOwnerRequest{RunId: "r"}, 1, []string{"next run", "other project", "project", "session"}},
			{&sandboxsupervisorv1.EndOwnerRequest{SessionId: "s"}, 2, []string{"other project", "project"}},
			{&sandboxsupervisorv1.EndOwnerRequest{ProjectId: "p"}, 1, []string{"other project"}},
			{&sandboxsupervisorv1.EndOwnerRequest{ProjectId: "p2"}, 1, nil},
		} {
			res, err := client.EndOwner(t.Context(), step.req)
			if err != nil || res.GetKilled() != step.killed {
				t.Errorf("%v: got %v, %v, want %d killed", step.req, res, err, step.killed)
			}
			if got := listed(&sandboxsupervisorv1.ListProcessesRequest{}); !slices.Equal(got, step.left) {
				t.Errorf("%v: got %q afterwards, want %q", step.req, got, step.left)
			}
		}
	})
}

// A project's own cage takes the project's commands and no session's, and no other project's though neither names a
// session; it outlives sessions and ends with the project.
func TestACageOfAProject(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{})
	root, policy := project(t), grantsWork()
	owner := &sandboxsupervisorv1.Owner{Kind: sandboxsupervisorv1.OwnerKind_OWNER_KIND_PROJECT, ProjectId: "p"}
	id := ident.New()
	stream, err := client.HoldCage(
		t.Context(),
		&sandboxsupervisorv1.HoldCageRequest{CageId: id, Owner: owner, Policy: policy, ProjectRoot: root},
	)
	if err != nil {
		t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetOpened() == nil {
		t.Fatalf("got %v, %v, want that the cage is there", event, err)
	}
	in := func(o *sandboxsupervisorv1.Owner) *sandboxsupervisorv1.ExecStart {
		return shell(t, "echo in", inCage(root, policy), ownedBy(o), func(s *sandboxsupervisorv1.ExecStart) { s.CageId = id })
	}
	for name, o := range map[string]*sandboxsupervisorv1.Owner{
		"a session of the project": {SessionId: "s", ProjectId: "p"},
		"another project":          {ProjectId: "p2"},
	} {
		if _, err := client.StartProcess(t.Context(), &sandboxsupervisorv1.StartProcessRequest{
			ProcessId: ident.New(),
			Start:     in(o),
		}); !errors.Is(
			err,
			fault.Conflict,
		) {
			t.Errorf("%s: got %v, want conflict", name, err)
		}
	}
	if _, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{SessionId: "s"}); err != nil {
		t.Error(err)
	}
	r := begin(t, client, in(owner))
	if exit := r.wait(); exit.GetExitCode() != 0 || strings.TrimSpace(r.stdout.String()) != "in" {
		t.Errorf("a command of the project ended %v, said %q", exit, r.stdout.String())
	}
	list, err := client.ListCages(t.Context(), &sandboxsupervisorv1.ListCagesRequest{ProjectId: "p"})
	if err != nil || len(list.GetCages()) != 1 || list.GetCages()[0].GetCageId() != id {
		t.Errorf("the project's cages: got %v, %v", list, err)
	}
	if _, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{ProjectId: "p"}); err != nil {
		t.Error(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetEnded().GetReason() != ownerEnded {
		t.Errorf("got %v, %v, want the end with the owner", event, err)
	}
}
