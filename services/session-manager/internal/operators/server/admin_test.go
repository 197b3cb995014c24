package server_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditserver "kaged.dev/services/session-manager/internal/audit/server"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/operators/core/admin"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
	"kaged.dev/services/session-manager/internal/operators/core/rates"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
	"kaged.dev/services/session-manager/internal/operators/server"
	"kaged.dev/services/session-manager/internal/operators/store"
)

// volume is a workspace with or without files.
type volume struct{ files bool }

func (v *volume) Empty(ctx context.Context, _, _ string) (bool, error) {
	if ident.CallerFrom(ctx).UserID != "" {
		return false, errors.New("the workspace was asked for an operator")
	}
	return !v.files, nil
}

// told is an issue service.
type told struct{}

func (told) Assigned(context.Context, workspaces.Assignment) error { return nil }

// deployment is a shared deployment of two workspaces, of which ada has the first.
type deployment struct {
	*server.Admin
	db     database.DB
	audit  *audit.Service
	rules  *localconfig.Governed
	volume *volume
	places *workspaces.Workspaces
	// configs has the configurations of operators.
	configs *operatorconfig.Service
}

func newDeployment(t *testing.T, shared bool) *deployment {
	t.Helper()
	db := pgtest.New(t, migrations.Files, migrations.Schema)
	d := &deployment{db: db, audit: audit.NewService(auditstore.NewAudit(db), true), volume: &volume{files: true}}
	kept := store.NewAdmin(db)
	d.rules = &localconfig.Governed{
		Inner: localconfig.NewFile("", 1<<20, slog.New(slog.DiscardHandler)), Rules: kept,
	}
	d.places = &workspaces.Workspaces{
		Names: []string{"one", "two"}, Shared: shared, Store: store.NewWorkspaces(db), Told: told{},
	}
	if err := d.places.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shared {
		if _, err := d.places.Take(ident.WithCaller(t.Context(), ident.Caller{UserID: "ada"}), "ada"); err != nil {
			t.Fatal(err)
		}
	}
	d.configs = &operatorconfig.Service{Store: kept, Base: d.rules.Inner, Shared: shared}
	d.Admin = server.NewAdmin(&admin.Service{
		Store: kept, Audit: d.audit, Volume: d.volume, Places: d.places, Configs: d.configs, Root: "/projects",
	}, auditserver.Entry)
	return d
}

func asAdmin(t *testing.T) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: "root", Role: ident.Admin, RequestID: "r"})
}

// shown returns how many records of a type an operator sees.
func (d *deployment) shown(t *testing.T, operator, event string) int {
	t.Helper()
	p, err := d.audit.Query(t.Context(), operator, audit.Filter{EventType: event}, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	return len(p.Items)
}

// Everyone but an administrator of a shared deployment gets not_found from each call.
func TestOnlyAdministrators(t *testing.T) {
	d := newDeployment(t, true)
	alone := newDeployment(t, false)
	ordinary := ident.WithCaller(t.Context(), ident.Caller{UserID: "ada"})
	for name, c := range map[string]struct {
		on  *deployment
		ctx context.Context
	}{"an operator": {d, ordinary}, "an administrator of a deployment of one": {alone, asAdmin(t)}} {
		for call, err := range map[string]error{
			"operators":  failure(c.on.ListOperators(c.ctx, &apiv1.ListOperatorsRequest{})),
			"limits":     failure(c.on.SetOperatorLimits(c.ctx, &apiv1.SetOperatorLimitsRequest{OperatorId: "ada"})),
			"disable":    failure(c.on.DisableOperator(c.ctx, &apiv1.DisableOperatorRequest{OperatorId: "ada"})),
			"enable":     failure(c.on.EnableOperator(c.ctx, &apiv1.EnableOperatorRequest{OperatorId: "ada"})),
			"workspaces": failure(c.on.ListWorkspaces(c.ctx, &apiv1.ListWorkspacesRequest{})),
			"drain":      failure(c.on.DrainWorkspace(c.ctx, &apiv1.DrainWorkspaceRequest{Name: "one"})),
			"activate":   failure(c.on.ActivateWorkspace(c.ctx, &apiv1.ActivateWorkspaceRequest{Name: "one"})),
			"release":    failure(c.on.ReleaseWorkspace(c.ctx, &apiv1.ReleaseWorkspaceRequest{Name: "one"})),
			"audit":      failure(c.on.ListAdminAudit(c.ctx, &apiv1.ListAdminAuditRequest{})),
		} {
			if !errors.Is(err, fault.NotFound) {
				t.Errorf("%s, %s: got %v, want not_found", name, call, err)
			}
		}
	}
	if n := d.shown(t, "ada", "admin.*"); n != 0 {
		t.Errorf("%d records of refused reads", n)
	}
}

func failure[T any](_ T, err error) error { return err }

// An administrator sees operators and records without content, sets limits that win over the configuration, and
// disables an operator; each read and change is shown to the operator concerned.
func TestAdministration(t *testing.T) {
	d := newDeployment(t, true)
	ctx := asAdmin(t)
	list, err := d.ListOperators(ctx, &apiv1.ListOperatorsRequest{})
	if err != nil || len(list.GetItems()) != 1 || list.GetItems()[0].GetWorkspace() != "one" {
		t.Fatalf("%v, %v", list, err)
	}
	if n := d.shown(t, "ada", "admin.read"); n != 1 {
		t.Errorf("ada sees %d reads, want 1", n)
	}
	_, err = d.SetOperatorLimits(ctx, &apiv1.SetOperatorLimitsRequest{
		OperatorId: "ada", Limits: &apiv1.OperatorLimits{MaxSteps: proto.Int32(1000)},
	})
	if !errors.Is(err, fault.ValidationFailed) {
		t.Errorf("a limit out of range: %v", err)
	}
	_, err = d.SetOperatorLimits(ctx, &apiv1.SetOperatorLimitsRequest{OperatorId: "nobody"})
	if !errors.Is(err, fault.NotFound) {
		t.Errorf("an unknown operator: %v", err)
	}
	before, err := d.rules.Config(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	set, err := d.SetOperatorLimits(ctx, &apiv1.SetOperatorLimitsRequest{
		OperatorId: "ada", Limits: &apiv1.OperatorLimits{SessionsPerOperator: proto.Int32(3)},
		Budget: &apiv1.OperatorBudget{Usd: 2, Per: "week"},
	})
	if err != nil || set.GetOperator().GetLimits().GetSessionsPerOperator() != 3 ||
		set.GetOperator().GetBudget().GetUsd() != 2 {
		t.Fatalf("%v, %v", set, err)
	}
	fresh := &localconfig.Governed{Inner: d.rules.Inner, Rules: d.rules.Rules} // with no remembered rule
	after, err := fresh.Config(ctx, "ada")
	if err != nil || after.Limits().SessionsPerOperator != 3 || after.Budget().Limit.NanoUSD != 2_000_000_000 ||
		after.Revision() == before.Revision() {
		t.Errorf("%+v, %v", after, err)
	}
	if other, err := fresh.Config(ctx, "eve"); err != nil || other.Limits().SessionsPerOperator != 0 {
		t.Errorf("another operator has %+v, %v", other, err)
	}
	_, err = d.DisableOperator(ctx, &apiv1.DisableOperatorRequest{OperatorId: "root"})
	if !errors.Is(err, fault.Conflict) {
		t.Errorf("disabling oneself: %v", err)
	}
	off, err := d.DisableOperator(ctx, &apiv1.DisableOperatorRequest{OperatorId: "ada"})
	if err != nil || off.GetOperator().GetDisabledAt() == 0 ||
		off.GetOperator().GetLimits().GetSessionsPerOperator() != 3 {
		t.Errorf("%v, %v", off, err)
	}
	fresh = &localconfig.Governed{Inner: d.rules.Inner, Rules: d.rules.Rules}
	if err := fresh.Admit(ctx, "ada"); !errors.Is(err, fault.Forbidden) ||
		fault.From(err).Details["reason"] != "operator_disabled" {
		t.Errorf("a disabled operator: %v", err)
	}
	if on, err := d.EnableOperator(ctx, &apiv1.EnableOperatorRequest{OperatorId: "ada"}); err != nil ||
		on.GetOperator().DisabledAt != nil {
		t.Errorf("%v, %v", on, err)
	}
	for _, event := range []string{"operator.limited", "operator.disabled", "operator.enabled"} {
		if n := d.shown(t, "ada", event); n != 1 {
			t.Errorf("ada sees %d records %s, want 1", n, event)
		}
	}
	records, err := d.ListAdminAudit(ctx, &apiv1.ListAdminAuditRequest{OperatorId: "ada", EventType: "operator.*"})
	if err != nil || len(records.GetItems()) != 3 {
		t.Fatalf("%v, %v", records, err)
	}
	for _, r := range records.GetItems() {
		if len(r.GetPayload().GetFields()) != 0 {
			t.Errorf("the record shows %v", r.GetPayload())
		}
	}
}

// An administrator sets each rate limit of an operator by itself. The next requests of the operator are counted against
// it, at every gateway; other operators keep the deployment's.
func TestRateLimitsOfAnOperator(t *testing.T) {
	d := newDeployment(t, true)
	got, err := d.SetOperatorLimits(asAdmin(t), &apiv1.SetOperatorLimitsRequest{
		OperatorId: "ada", Limits: &apiv1.OperatorLimits{
			RequestsPerMinute: proto.Int32(11), MessagesPerMinute: proto.Int32(12), ValidationsPerMinute: proto.Int32(13),
			DslWritesPerMinute: proto.Int32(4), AuditReadsPerMinute: proto.Int32(15),
		},
	})
	if l := got.GetOperator().GetLimits(); err != nil || l.GetValidationsPerMinute() != 13 ||
		l.GetDslWritesPerMinute() != 4 || l.GetAuditReadsPerMinute() != 15 || l.MaxSteps != nil {
		t.Fatalf("%v, %v", l, err)
	}
	local := &localconfig.Governed{Inner: d.rules.Inner, Rules: d.rules.Rules}
	service := &rates.Service{Store: store.NewRates(d.db), Local: local}
	take := func(operator, limit string) (taken int) {
		t.Helper()
		ctx := ident.WithCaller(t.Context(), ident.Caller{UserID: operator})
		for {
			n, _, err := service.Take(ctx, limit, 1)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return taken
			}
			taken += n
		}
	}
	for limit, most := range map[string][2]int{
		rates.Requests: {11, 600}, rates.Messages: {12, 30}, rates.Validations: {13, 120}, rates.DSLWrites: {4, 10},
		rates.Audit: {15, 30},
	} {
		// Tokens that refill during the test count as well.
		if n := take("ada", limit); n < most[0] || n > most[0]+most[0]/2+1 {
			t.Errorf("%s: ada took %d of %d", limit, n, most[0])
		}
		if n := take("eve", limit); n < most[1] {
			t.Errorf("%s: eve took %d of %d", limit, n, most[1])
		}
	}
	for field, l := range map[string]*apiv1.OperatorLimits{
		"validations_per_minute": {ValidationsPerMinute: proto.Int32(-1)},
		"dsl_writes_per_minute":  {DslWritesPerMinute: proto.Int32(config.MaxPerMinute + 1)},
		"audit_reads_per_minute": {AuditReadsPerMinute: proto.Int32(-5)},
	} {
		_, err := d.SetOperatorLimits(asAdmin(t), &apiv1.SetOperatorLimitsRequest{OperatorId: "ada", Limits: l})
		wrong, _ := fault.From(err).Details["fields"].([]string)
		if !errors.Is(err, fault.ValidationFailed) || !slices.Equal(wrong, []string{field}) {
			t.Errorf("%s out of range: %v, fields %v", field, err, wrong)
		}
	}
}

// A workspace is drained, made active again, and released only drained and empty; then another operator can have it.
func TestWorkspacesAreReleased(t *testing.T) {
	d := newDeployment(t, true)
	ctx := asAdmin(t)
	release := func() error { return failure(d.ReleaseWorkspace(ctx, &apiv1.ReleaseWorkspaceRequest{Name: "one"})) }
	refused := func(reason string, err error) {
		t.Helper()
		if !errors.Is(err, fault.Conflict) || fault.From(err).Details["reason"] != reason {
			t.Errorf("got %v, want conflict, %s", err, reason)
		}
	}
	refused("not_drained", release())
	w, err := d.DrainWorkspace(ctx, &apiv1.DrainWorkspaceRequest{Name: "one"})
	if err != nil || w.GetWorkspace().GetState() != "draining" || w.GetWorkspace().GetOperatorId() != "ada" {
		t.Fatalf("%v, %v", w, err)
	}
	if err := d.places.CheckStart(t.Context(), "ada", "one"); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a run in a drained workspace: %v", err)
	}
	if names, err := d.places.Draining()(t.Context()); err != nil || len(names) != 1 || names[0] != "one" {
		t.Errorf("drained are %v, %v", names, err)
	}
	if w, err := d.ActivateWorkspace(ctx, &apiv1.ActivateWorkspaceRequest{Name: "one"}); err != nil ||
		w.GetWorkspace().GetState() != "active" {
		t.Fatalf("%v, %v", w, err)
	}
	if _, err := d.DrainWorkspace(ctx, &apiv1.DrainWorkspaceRequest{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	refused("not_empty", release())
	d.volume.files = false
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if got, err := d.ListWorkspaces(ctx, &apiv1.ListWorkspacesRequest{}); err != nil || len(got.GetItems()) != 2 ||
		got.GetItems()[0].OperatorId != nil || got.GetItems()[0].GetState() != "active" {
		t.Errorf("%v, %v", got, err)
	}
	eve := ident.WithCaller(t.Context(), ident.Caller{UserID: "eve"})
	if name, err := d.places.Take(eve, "eve"); err != nil || name != "one" {
		t.Errorf("eve has %s, %v", name, err)
	}
	if err := d.places.Check(t.Context(), "ada", "one"); !errors.Is(err, fault.NotFound) {
		t.Errorf("ada in the released workspace: %v", err)
	}
	if _, err := d.DrainWorkspace(ctx, &apiv1.DrainWorkspaceRequest{Name: "three"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("an unknown workspace: %v", err)
	}
	for event, want := range map[string]int{"workspace.drained": 2, "workspace.activated": 1, "workspace.released": 1} {
		if n := d.shown(t, "ada", event); n != want {
			t.Errorf("ada sees %d records %s, want %d", n, event, want)
		}
	}
}
