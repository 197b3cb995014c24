package gateway_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// adminContract has one exchange for each route of administrators: the written one, or a sample.
func adminContract() []exchange {
	written := writtenAdminContract()
	return append(written, sampled(func(route string) bool {
		return forAdministrators(route) && !slices.ContainsFunc(written, func(e exchange) bool { return e.route == route })
	})...)
}

func writtenAdminContract() []exchange {
	const (
		operators, workspaces = "/api/v1/admin/operators", "/api/v1/admin/workspaces"
		operatorJSON          = `{"operator_id":"ada","workspace":"one","sessions":2,"running":1,"last_active_at":5,` +
			`"cost_usd":0.5,` +
			`"tokens":7,"calls":3,"disabled_at":null,"limits":{"sessions_per_project":null,"sessions_per_operator":4,` +
			`"max_steps":null,"live_agents":null,"requests_per_minute":null,"messages_per_minute":null,` +
			`"validations_per_minute":null,"dsl_writes_per_minute":null,"audit_reads_per_minute":null},` +
			`"budget":{"usd":2,"tokens":0,"calls":0,"per":"week"}}`
		workspaceJSON = `{"name":"one","operator_id":"ada","state":"draining","assigned_at":4,"running":1}`
	)
	operator := &apiv1.AdminOperator{
		OperatorId: "ada", Workspace: proto.String("one"), Sessions: 2, Running: 1, LastActiveAt: proto.Int64(5),
		CostUsd: 0.5,
		Tokens:  7, Calls: 3, Limits: &apiv1.OperatorLimits{SessionsPerOperator: proto.Int32(4)},
		Budget: &apiv1.OperatorBudget{Usd: 2, Per: "week"},
	}
	workspace := &apiv1.AdminWorkspace{
		Name: "one", OperatorId: proto.String("ada"), State: "draining", AssignedAt: proto.Int64(4), Running: 1,
	}
	return []exchange{
		{
			"GET /api/v1/admin/operators", "GET", operators + "?limit=2", "", &apiv1.ListOperatorsRequest{Limit: 2},
			&apiv1.ListOperatorsResponse{Items: []*apiv1.AdminOperator{operator}}, 200,
			`{"items":[` + operatorJSON + `],"next_cursor":null,"has_more":false}`,
		},
		{
			"PUT /api/v1/admin/operators/{operator_id}/limits", "PUT", operators + "/ada/limits",
			`{"limits":{"sessions_per_operator":4},"budget":{"usd":2,"per":"week"}}`,
			&apiv1.SetOperatorLimitsRequest{
				OperatorId: "ada", Limits: &apiv1.OperatorLimits{SessionsPerOperator: proto.Int32(4)},
				Budget: &apiv1.OperatorBudget{Usd: 2, Per: "week"},
			}, &apiv1.SetOperatorLimitsResponse{Operator: operator}, 200, operatorJSON,
		},
		{
			"GET /api/v1/admin/operators/{operator_id}/config", "GET", operators + "/ada/config", "",
			&apiv1.GetOperatorConfigRequest{OperatorId: "ada"}, &apiv1.GetOperatorConfigResponse{
				Config: &apiv1.OperatorConfig{OperatorId: "ada"},
			}, 200, `{"operator_id":"ada","document":"","revision":0,"updated_at":null}`,
		},
		{
			"PUT /api/v1/admin/operators/{operator_id}/config", "PUT", operators + "/ada/config",
			`{"document":"[models]\n"}`, &apiv1.SetOperatorConfigRequest{OperatorId: "ada", Document: "[models]\n"},
			&apiv1.SetOperatorConfigResponse{Config: &apiv1.OperatorConfig{
				OperatorId: "ada", Document: "[models]\n", Revision: 2, UpdatedAt: proto.Int64(7),
			}}, 200, `{"operator_id":"ada","document":"[models]\n","revision":2,"updated_at":7}`,
		},
		{
			"POST /api/v1/admin/operators/{operator_id}/disable", "POST", operators + "/ada/disable", "{}",
			&apiv1.DisableOperatorRequest{OperatorId: "ada"}, &apiv1.DisableOperatorResponse{Operator: operator}, 200,
			operatorJSON,
		},
		{
			"POST /api/v1/admin/operators/{operator_id}/enable", "POST", operators + "/ada/enable", "{}",
			&apiv1.EnableOperatorRequest{OperatorId: "ada"}, &apiv1.EnableOperatorResponse{Operator: operator}, 200,
			operatorJSON,
		},
		{
			"GET /api/v1/admin/workspaces", "GET", workspaces, "", &apiv1.ListWorkspacesRequest{},
			&apiv1.ListWorkspacesResponse{Items: []*apiv1.AdminWorkspace{workspace}}, 200, `{"items":[` + workspaceJSON + `]}`,
		},
		{
			"POST /api/v1/admin/workspaces/{name}/drain", "POST", workspaces + "/one/drain", "{}",
			&apiv1.DrainWorkspaceRequest{Name: "one"}, &apiv1.DrainWorkspaceResponse{Workspace: workspace}, 200,
			workspaceJSON,
		},
		{
			"POST /api/v1/admin/workspaces/{name}/activate", "POST", workspaces + "/one/activate", "{}",
			&apiv1.ActivateWorkspaceRequest{Name: "one"}, &apiv1.ActivateWorkspaceResponse{Workspace: workspace}, 200,
			workspaceJSON,
		},
		{
			"POST /api/v1/admin/workspaces/{name}/release", "POST", workspaces + "/one/release", "{}",
			&apiv1.ReleaseWorkspaceRequest{Name: "one"}, &apiv1.ReleaseWorkspaceResponse{Workspace: workspace}, 200,
			workspaceJSON,
		},
		{
			"GET /api/v1/admin/audit", "GET", "/api/v1/admin/audit?operator_id=ada&since=5", "",
			&apiv1.ListAdminAuditRequest{OperatorId: "ada", Since: 5},
			&apiv1.ListAdminAuditResponse{Items: []*apiv1.AuditEntry{
				{Id: "01A", Ts: 6, EventType: "run.ended", UserId: "ada"},
			}}, 200,
			`{"items":[{"id":"01A","ts":6,"event_type":"run.ended","user_id":"ada","request_id":"","project_id":null,` +
				`"session_id":null,"payload":null}],"next_cursor":null,"has_more":false}`,
		},
	}
}

// The administrators' routes forward an administrator's request with the role. To other operators they answer
// not_found without calling session-manager.
func TestAdminContract(t *testing.T) {
	t.Parallel()
	d := start(t, setup{
		system: config.System{Enabled: true, AdminGroup: "admins"}, config: map[string]any{"sidecar_nonce": "n"},
	})
	for group, admin := range map[string]bool{"admins": true, "Admins": false, "dev": false} {
		c := d.client()
		c.header = http.Header{
			"X-Kaged-User-Id": {"ann"}, "X-Kaged-User-Groups": {group}, "X-Kaged-Auth-Nonce": {"n"},
		}
		c.get("/api/v1/me")
		for _, e := range adminContract() {
			d.manager.replies(e.reply, nil)
			got := c.do(e.method, e.path, e.body)
			if !admin {
				got.refused(t, group+" "+e.route, 404, "not_found")
				continue
			}
			if diff := cmp.Diff(e.want, got.body); got.status != e.status || diff != "" {
				t.Errorf("%s: status %d; want -, got +:\n%s", e.route, got.status, diff)
			}
			d.manager.with(func() {
				if len(d.manager.asked) != 1 || d.manager.callers[0].Role != ident.Admin {
					t.Fatalf("%s: session-manager was asked %d times", e.route, len(d.manager.asked))
				}
				if diff := cmp.Diff(e.asked, d.manager.asked[0], protocmp.Transform()); diff != "" {
					t.Errorf("%s: asked, want -, got +:\n%s", e.route, diff)
				}
			})
		}
	}
}
