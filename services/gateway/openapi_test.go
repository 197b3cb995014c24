package gateway_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"kaged.dev/services/gateway/apitest"
	"kaged.dev/services/gateway/internal/server"
)

// The description is valid OpenAPI 3.1 and describes exactly the served routes (A-OPEN-03).
func TestDescription(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	got := d.operator().get("/api/v1/openapi.json")
	document, err := libopenapi.NewDocument([]byte(got.body))
	if err != nil {
		t.Fatal(err)
	}
	check, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if valid, problems := check.ValidateDocument(); !valid {
		for _, p := range problems {
			t.Error(p.Message, p.Reason, p.SchemaValidationErrors)
		}
	}
	var described struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(got.body), &described); err != nil || described.OpenAPI != "3.1.0" {
		t.Fatalf("openapi %q, %v", described.OpenAPI, err)
	}
	var have, want, ids []string
	for path, methods := range described.Paths {
		for method, op := range methods {
			have = append(have, strings.ToUpper(method)+" "+path)
			ids = append(ids, op.OperationID)
		}
	}
	for _, pattern := range append(server.ContractRoutes(), server.OwnRoutes()...) {
		want = append(want, apitest.Template(pattern))
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("described: %q\nserved: %q", have, want)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != len(have) {
		t.Errorf("an operation's id is not its own")
	}
}

// The page of the description and its files are served to operators and tokens only, and no other page may frame
// it.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	d.client().get("/docs/api").refused(t, "a stranger", 401, "unauthenticated")
	c := d.operator()
	page := c.get("/docs/api")
	for _, html := range []answer{page, c.get("/"), d.client().get("/")} {
		if policy := html.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
			!strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "form-action 'none'") {
			t.Errorf("got the policy %q of a page, want that no other page frames it", policy)
		}
	}
	if page.status != 200 || !strings.Contains(page.body, "/api/v1/openapi.json") {
		t.Errorf("the page: %d %s", page.status, page.body)
	}
	for _, file := range []string{"swagger-ui.css", "swagger-ui-bundle.js"} {
		if !strings.Contains(page.body, "/docs/api/"+file) {
			t.Errorf("the page does not name %s: %s", file, page.body)
		}
		if got := c.get("/docs/api/" + file); got.status != 200 || len(got.body) < 1000 {
			t.Errorf("%s: %d, %d bytes", file, got.status, len(got.body))
		}
	}
}
