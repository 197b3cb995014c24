package sessionmanager

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ListChanges returns the parameters of its request.
func (r *toolRunner) ListChanges(
	_ context.Context, req *toolrunnerv1.ListChangesRequest,
) (*toolrunnerv1.ListChangesResponse, error) {
	return &toolrunnerv1.ListChangesResponse{Head: "c", Files: []*toolrunnerv1.ChangedFile{
		{Path: req.GetRoot() + "|" + req.GetSessionId() + "|" +
			req.GetPath(), Kind: "modified", Origin: "tool", Added: 1, Diff: "d"},
		{Path: "z", Kind: "created", Origin: "outside", NoDiff: "binary"},
	}}, nil
}

// Examine returns a machine without cages.
func (r *toolRunner) Examine(context.Context, *toolrunnerv1.ExamineRequest) (*toolrunnerv1.ExamineResponse, error) {
	return &toolrunnerv1.ExamineResponse{
		Cages:  &commonv1.CageReport{Unavailable: "no namespaces"},
		Checks: []*commonv1.MachineCheck{{Name: "git", State: "ok", Detail: "/usr/bin/git"}},
	}, nil
}

// An operator sees the changes of own sessions only.
func TestListSessionChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	got, err := n.Sessions.ListSessionChanges(as(t, "ada"), &apiv1.ListSessionChangesRequest{SessionId: s, Path: "p"})
	if err != nil || len(got.GetItems()) != 2 || got.GetHead() != "c" {
		t.Fatalf("%v %v", got, err)
	}
	first, second := got.GetItems()[0], got.GetItems()[1]
	if first.GetPath() != w.project+"|"+s+"|p" || first.GetDiff() != "d" || first.NoDiff != nil || second.Diff != nil ||
		second.GetNoDiff() != "binary" {
		t.Errorf("%v, %v", first, second)
	}
	_, err = n.Sessions.ListSessionChanges(as(t, "eve"), &apiv1.ListSessionChangesRequest{SessionId: s})
	refused(t, err, fault.NotFound)
}

// The doctor checks the stores, the operator's models and the workspace, and is ok only if cages work.
func TestGetDoctor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	got, err := sessionmanagerv1.NewDoctorServiceClient(n.conn).GetDoctor(as(t, "ada"), &apiv1.GetDoctorRequest{})
	if err != nil || got.GetOk() || got.GetVersion() != "test" || got.GetCages().GetUnavailable() != "no namespaces" {
		t.Fatalf("%v %v", got, err)
	}
	var states []string
	for _, c := range got.GetChecks() {
		states = append(states, c.GetName()+" "+c.GetState())
	}
	want := []string{"PostgreSQL ok", "NATS ok", "model smart ok", "git ok"}
	if !slices.Equal(states, want) {
		t.Errorf("got %q, want %q", states, want)
	}
}

// An operator's aliases and providers are listed, and an unusable configuration is refused (A-ALIAS-LIST-01,
// A-PROV-LIST-01).
func TestLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	local := sessionmanagerv1.NewLocalServiceClient(n.conn)
	aliases, err := local.ListAliases(as(t, "ada"), &apiv1.ListAliasesRequest{})
	providers, failed := local.ListProviders(as(t, "ada"), &apiv1.ListProvidersRequest{})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	got := fmt.Sprint(aliases.GetItems(), providers.GetItems())
	if len(aliases.GetItems()) != 1 || !aliases.GetItems()[0].GetUsable() || len(providers.GetItems()) != 1 ||
		providers.GetItems()[0].GetBaseUrl() != "http://127.0.0.1:1/v1" {
		t.Error(got)
	}
	w.configure("[models]\nsmart = [\"p:m\", \"p:n\"]\n[providers.p]\ndriver = \"openai-chat\"\n" +
		"base_url = \"http://127.0.0.1:1/v1\"\n[[providers.p.models]]\nid = \"n\"\nname = \"Nina\"\n")
	named, err := local.ListAliases(as(t, "ada"), &apiv1.ListAliasesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if list := named.GetItems()[0].GetTargets(); list[0].Name != nil || list[1].GetName() != "Nina" {
		t.Errorf("the targets are named %v", list)
	}
	w.configure("models = 1")
	_, err = local.ListAliases(as(t, "ada"), &apiv1.ListAliasesRequest{})
	refused(t, err, fault.LocalConfigInvalid)
}
