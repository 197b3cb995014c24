package server_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
	"kaged.dev/services/session-manager/internal/operators/server"
)

const deploymentTOML = `operator_name = "Someone"
[ui]
theme = "dark"
locale = "en-US"
[models]
smart = "house:big"
fast = "house:small"
[default_tools]
"shell.bash" = {enabled = true}
"*" = {enabled = true}
[providers.house]
driver = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
`

// configured is a shared deployment with a configuration, and the service of an operator's own.
func configured(t *testing.T, shared bool) (*deployment, *server.Local) {
	t.Helper()
	d := newDeployment(t, shared)
	path := filepath.Join(t.TempDir(), "local.toml")
	if err := os.WriteFile(path, []byte(deploymentTOML), 0o600); err != nil {
		t.Fatal(err)
	}
	d.rules.Inner = localconfig.NewFile(path, 1<<20, slog.New(slog.DiscardHandler))
	d.configs.Base = d.rules.Inner
	return d, server.NewLocal(d.rules, d.configs)
}

// now returns an operator's configuration as a process without a memory of it reads it.
func (d *deployment) now(t *testing.T, operator string) (*localconfig.Config, error) {
	t.Helper()
	fresh := &localconfig.Governed{Inner: d.rules.Inner, Rules: d.rules.Rules}
	return fresh.Config(t.Context(), operator)
}

func asOperator(t *testing.T, user string) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: user, RequestID: "r"})
}

// An operator's own configuration lies over the deployment's, and the administrators' lies over both. Another operator
// keeps the deployment's. Each change is recorded with the names of its keys, for the operator concerned.
func TestOperatorConfig(t *testing.T) {
	d, local := configured(t, true)
	before, err := d.now(t, "ada")
	if err != nil {
		t.Fatal(err)
	}
	own := "operator_name = \"Ada\"\n[models]\nsmart = \"house:hers\"\nmine = \"house:own\"\n[ui]\ntheme = \"light\"\n"
	set, err := local.SetLocalConfig(asOperator(t, "ada"), &apiv1.SetLocalConfigRequest{Document: own})
	if err != nil || set.GetConfig().GetDocument() != own || set.GetConfig().GetRevision() != 1 ||
		set.GetConfig().GetUpdatedAt() == 0 {
		t.Fatalf("%v, %v", set, err)
	}
	middle, err := d.now(t, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if p := middle.Preferences(); p != (localconfig.Preferences{OperatorName: "Ada", Theme: "light", Locale: "en-US"}) {
		t.Errorf("got preferences %+v", p)
	}
	binds(t, middle, map[string]string{"smart": "house:hers", "fast": "house:small", "mine": "house:own"})

	theirs := "[models]\nsmart = \"house:cheap\"\n[default_tools]\n\"shell.bash\" = {enabled = false}\n"
	by, err := d.SetOperatorConfig(asAdmin(t), &apiv1.SetOperatorConfigRequest{OperatorId: "ada", Document: theirs})
	if err != nil || by.GetConfig().GetDocument() != theirs || by.GetConfig().GetOperatorId() != "ada" {
		t.Fatalf("%v, %v", by, err)
	}
	after, err := d.now(t, "ada")
	if err != nil {
		t.Fatal(err)
	}
	binds(t, after, map[string]string{"smart": "house:cheap", "fast": "house:small", "mine": "house:own"})
	want := []catalogue.Switch{{Pattern: "*", Enabled: true}, {Pattern: "shell.bash", Enabled: false}}
	if got := after.ToolRules(); !slices.Equal(got, want) {
		t.Errorf("got rules %v, want %v", got, want)
	}
	if before.Revision() == middle.Revision() || middle.Revision() == after.Revision() {
		t.Errorf("got revisions %d, %d, %d, want three", before.Revision(), middle.Revision(), after.Revision())
	}
	eve, err := d.now(t, "eve")
	if err != nil {
		t.Fatal(err)
	}
	binds(t, eve, map[string]string{"smart": "house:big", "fast": "house:small"})

	mine, err := local.GetLocalConfig(asOperator(t, "ada"), &apiv1.GetLocalConfigRequest{})
	if err != nil || mine.GetConfig().GetAdministratorDocument() != theirs || mine.GetConfig().GetDocument() != own {
		t.Errorf("ada reads %v, %v", mine, err)
	}
	shown, err := d.GetOperatorConfig(asAdmin(t), &apiv1.GetOperatorConfigRequest{OperatorId: "ada"})
	if err != nil || strings.Contains(shown.String(), "hers") || shown.GetConfig().GetRevision() != 1 {
		t.Errorf("the administrator reads %v, %v", shown, err)
	}
	d.recordsOfConfig(t)

	// An empty document removes a configuration, and the revision still grows.
	if _, err := d.SetOperatorConfig(asAdmin(t), &apiv1.SetOperatorConfigRequest{OperatorId: "ada"}); err != nil {
		t.Fatal(err)
	}
	back, err := d.now(t, "ada")
	if err != nil || back.Revision() <= after.Revision() {
		t.Fatalf("revision %d after %d, %v", back.Revision(), after.Revision(), err)
	}
	binds(t, back, map[string]string{"smart": "house:hers", "fast": "house:small", "mine": "house:own"})
}

func (d *deployment) recordsOfConfig(t *testing.T) {
	t.Helper()
	p, err := d.audit.Query(t.Context(), "ada", audit.Filter{EventType: operatorconfig.Event}, 0, "")
	if err != nil || len(p.Items) != 2 {
		t.Fatalf("ada sees %v, %v", p.Items, err)
	}
	newest, oldest := p.Items[0].Payload, p.Items[1].Payload
	if newest["administrator"] != "root" || newest["set_by"] != "administrator" || oldest["set_by"] != "operator" ||
		len(oldest["sha256"].(string)) != 64 {
		t.Errorf("recorded %v and %v", oldest, newest)
	}
	var keys []string
	for _, k := range oldest["keys"].([]any) {
		keys = append(keys, k.(string))
	}
	if want := []string{"models.mine", "models.smart", "operator_name", "ui.theme"}; !slices.Equal(keys, want) {
		t.Errorf("recorded keys %v, want %v", keys, want)
	}
	if n := d.shown(t, "ada", "admin.read"); n != 1 {
		t.Errorf("ada sees %d reads, want 1", n)
	}
}

func binds(t *testing.T, c *localconfig.Config, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, route := range c.Aliases() {
		got[route.Alias], _ = c.Binding(route.Alias)
	}
	for alias, target := range want {
		if got[alias] != target {
			t.Errorf("%s is bound to %q, want %q", alias, got[alias], target)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got aliases %v, want %v", got, want)
	}
}

// A refused document changes nothing and is refused with the place. An operator has no rules for tools and no other
// operator's configuration; a deployment of one operator has local.toml alone.
func TestOperatorConfigIsRefused(t *testing.T) {
	d, local := configured(t, true)
	ada := asOperator(t, "ada")
	for name, c := range map[string]struct{ document, wrong string }{
		"tools": {
			"[default_tools]\n\"shell.bash\" = {enabled = true}\n", "document:1:2: default_tools: only an administrator",
		},
		"limits": {
			"operator_name = \"A\"\n[limits]\nmax_steps = 9\n", "document:2:2: limits: an administrator sets",
		},
		"a secret": {"[models]\nsmart = \"house:${TOKEN}\"\n", "document:2:1: models.smart"},
		"an unknown provider": {
			"[models]\nsmart = \"elsewhere:m\"\n",
			`models.smart: the deployment has no provider "elsewhere"; it has: house.`,
		},
		"a large document": {strings.Repeat("#\n", 40_000), "larger than 65536 bytes"},
	} {
		_, err := local.SetLocalConfig(ada, &apiv1.SetLocalConfigRequest{Document: c.document})
		if !errors.Is(err, fault.ValidationFailed) || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: got %v, want validation_failed with %s", name, err, c.wrong)
		}
	}
	if got, err := local.GetLocalConfig(ada, &apiv1.GetLocalConfigRequest{}); err != nil ||
		got.GetConfig().GetRevision() != 0 {
		t.Errorf("after the refusals: %v, %v", got, err)
	}
	for name, err := range map[string]error{
		"an operator reads":  failure(d.GetOperatorConfig(ada, &apiv1.GetOperatorConfigRequest{OperatorId: "ada"})),
		"an operator writes": failure(d.SetOperatorConfig(ada, &apiv1.SetOperatorConfigRequest{OperatorId: "eve"})),
		"an unknown operator": failure(d.SetOperatorConfig(asAdmin(t), &apiv1.SetOperatorConfigRequest{
			OperatorId: "nobody",
		})),
	} {
		if !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want not_found", name, err)
		}
	}
	alone, own := configured(t, false)
	for name, err := range map[string]error{
		"reads":  failure(own.GetLocalConfig(ada, &apiv1.GetLocalConfigRequest{})),
		"writes": failure(own.SetLocalConfig(ada, &apiv1.SetLocalConfigRequest{})),
	} {
		if !errors.Is(err, fault.Conflict) || fault.From(err).Details["reason"] != "one_operator" {
			t.Errorf("the only operator %s: got %v, want conflict, one_operator", name, err)
		}
	}
	if n := alone.shown(t, "ada", operatorconfig.Event); n != 0 {
		t.Errorf("%d records of refused changes", n)
	}
}

// A stored configuration that this version does not accept stops the operator's work, because it may turn tools off.
// The operator is still admitted, and a new configuration repairs it.
func TestAnUnreadableOperatorConfigStopsWork(t *testing.T) {
	d, local := configured(t, true)
	if _, err := d.db.Exec(t.Context(), `insert into operator_config (owner, set_by, document, updated_at)
		values ('ada', 'operator', 'retired_key = 1', 1)`); err != nil {
		t.Fatal(err)
	}
	if _, err := d.now(t, "ada"); !errors.Is(err, fault.LocalConfigInvalid) {
		t.Errorf("got %v, want local_config_invalid", err)
	}
	if err := (&localconfig.Governed{Inner: d.rules.Inner, Rules: d.rules.Rules}).Admit(t.Context(), "ada"); err != nil {
		t.Errorf("ada is not admitted: %v", err)
	}
	if _, err := d.now(t, "eve"); err != nil {
		t.Errorf("eve: %v", err)
	}
	if _, err := local.SetLocalConfig(asOperator(t, "ada"), &apiv1.SetLocalConfigRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.now(t, "ada"); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}
