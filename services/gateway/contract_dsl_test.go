package gateway_test

import (
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// dslContract has the routes of a project's files. The answer for an invalid file has keys of its own and the error
// (A-CONTRA-01).
func dslContract() []exchange {
	const project = "/api/v1/projects/music-site"
	wrong := []*apiv1.DslDiagnostic{
		{
			Kind:    "schema_violation",
			Message: "No.",
			Line:    14,
			Col:     9,
			Path:    "primary.model",
			File:    ".kaged/project.yaml",
			DocLink: "docs/a.md",
		},
	}
	const wrongJSON = `[{"kind":"schema_violation","message":"No.","line":14,"col":9,"path":"primary.model",` +
		`"file":".kaged/project.yaml","docLink":"docs/a.md"}]`
	refusal := &apiv1.ErrorObject{Code: commonv1.ErrorCode_ERROR_CODE_DSL_INVALID, Message: "No.", RequestId: "01Q"}
	const refusalJSON = `{"code":"dsl_invalid","message":"No.","request_id":"01Q"}`
	return []exchange{
		{
			"PUT /api/v1/projects/{id}", "PUT", project, `{"label":null}`,
			&apiv1.UpdateProjectRequest{Id: "music-site", Label: structpb.NewNullValue()},
			&apiv1.UpdateProjectResponse{Project: &apiv1.ProjectSummary{Id: "music-site", Path: "/p"}},
			200, `{"id":"music-site","path":"/p","label":null,"description":"","last_opened_at":null,` +
				`"state":"unspecified","session_count":0}`,
		},
		{
			"GET /api/v1/projects/{id}/unresolved", "GET", project + "/unresolved", "",
			&apiv1.GetUnresolvedRequest{Id: "music-site"}, &apiv1.GetUnresolvedResponse{Unresolved: &apiv1.Unresolved{}},
			200, `{"aliases":[],"plugins":[],"prompts":[]}`,
		},
		{
			"GET /api/v1/projects/{id}/dsl", "GET", project + "/dsl", "",
			&apiv1.GetDslRequest{Id: "music-site"},
			&apiv1.GetDslResponse{
				Dsl:           "version: 1\n",
				DslStatus:     apiv1.DslStatus_DSL_STATUS_VALID,
				SchemaVersion: 1,
				ValidatedAt:   2,
				Sha256:        proto.String("a"),
			},
			200, `{"dsl":"version: 1\n","dsl_status":"valid","schema_version":1,"validated_at":2,"sha256":"a"}`,
		},
		{
			"PUT /api/v1/projects/{id}/dsl", "PUT", project + "/dsl", `{"dsl":"version: 1\n"}`,
			&apiv1.PutDslRequest{Id: "music-site", Dsl: proto.String("version: 1\n")},
			&apiv1.PutDslResponse{Diagnostics: wrong, Error: refusal},
			422, `{"valid":false,"diagnostics":` + wrongJSON +
				`,"warnings":[],"cross_ref_errors":[],"saved":false,"error":` + refusalJSON + `}`,
		},
		{
			"POST /api/v1/dsl/validate", "POST", "/api/v1/dsl/validate", `{"dsl":""}`,
			&apiv1.ValidateDslRequest{Dsl: proto.String("")}, &apiv1.ValidateDslResponse{Valid: true, Warnings: []string{"w"}},
			200, `{"valid":true,"diagnostics":[],"warnings":["w"],"cross_ref_errors":[]}`,
		},
		{
			"GET /api/v1/projects/{id}/dsl/synthesized", "GET", project + "/dsl/synthesized", "",
			&apiv1.GetSynthesizedDslRequest{Id: "music-site"},
			&apiv1.GetSynthesizedDslResponse{
				HasOverlay:    true,
				ResolvedTools: structpb.NewNullValue(),
				Diagnostics:   wrong,
				Error:         refusal,
			},
			422, `{"yaml":null,"has_overlay":true,"has_project_references":false,"resolved_tools":null,` +
				`"diagnostics":` + wrongJSON +
				`,"warnings":[],"cross_ref_errors":[],"error":` + refusalJSON + `}`,
		},
		{
			"GET /api/v1/projects/{id}/prompts", "GET", project + "/prompts", "",
			&apiv1.ListPromptsRequest{Id: "music-site"},
			&apiv1.ListPromptsResponse{
				Items: []*apiv1.PromptSummary{{Path: "prompts/a.md", UpdatedAt: proto.Int64(3), VersionCount: 2, Present: true}},
			},
			200, `{"items":[{"path":"prompts/a.md","updated_at":3,"version_count":2,"present":true,"used_by":[]}]}`,
		},
		{
			"GET /api/v1/projects/{id}/prompts/{name...}", "GET", project + "/prompts/prompts/a.md?version=1&diff_from=2", "",
			&apiv1.GetPromptRequest{Id: "music-site", Name: "prompts/a.md", Version: 1, DiffFrom: 2},
			&apiv1.GetPromptResponse{
				Path:     "prompts/a.md",
				Version:  1,
				Text:     "Hi.",
				Sha256:   "a",
				Versions: []*apiv1.PromptVersion{{Version: 1, Sha256: "a", CreatedAt: 3}},
			},
			200, `{"path":"prompts/a.md","version":1,"text":"Hi.","sha256":"a",` +
				`"versions":[{"version":1,"sha256":"a","author":null,"created_at":3}]}`,
		},
		{
			"POST /api/v1/projects/{id}/subagents/init", "POST", project + "/subagents/init", `{"path":"agents/a"}`,
			&apiv1.InitSubagentRequest{Id: "music-site", Path: proto.String("agents/a")},
			&apiv1.InitSubagentResponse{Path: "/music/agents/a", Project: "a", Created: true},
			200, `{"path":"/music/agents/a","project":"a","created":true}`,
		},
		{
			"PUT /api/v1/projects/{id}/prompts/{name...}", "PUT", project + "/prompts/prompts/a.md", `{"text":"Hi."}`,
			&apiv1.PutPromptRequest{Id: "music-site", Name: "prompts/a.md", Text: proto.String("Hi.")},
			&apiv1.PutPromptResponse{Path: "prompts/a.md", Version: 2, Sha256: "a"},
			200, `{"path":"prompts/a.md","version":2,"sha256":"a"}`,
		},
	}
}

// Saving a valid project file and reading its document are answered with 200.
func TestDSLStatus(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.replies(&apiv1.PutDslResponse{Valid: true, Saved: true}, nil)
	if got := c.do("PUT", "/api/v1/projects/p/dsl", `{"dsl":"x"}`); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	d.manager.replies(&apiv1.GetSynthesizedDslResponse{Yaml: proto.String("version: 1\n")}, nil)
	if got := c.get("/api/v1/projects/p/dsl/synthesized"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A prompt is sent and received as text/plain by a client that asks for it, empty or with any UTF-8 text, and as
// JSON by other clients. No other route accepts text (A-PROMPT-GET-01, A-PROMPT-PUT-01, A-WIRE-CTYPE-01,
// A-CONTRA-02).
func TestPromptsAsText(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	const path = "/api/v1/projects/p/prompts/prompts/a%20b.md"
	for _, text := range []string{"", "{\"not\": json\n", "ä\x00\u2028"} {
		d.manager.replies(&apiv1.PutPromptResponse{}, nil)
		c.header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
		if got := c.do("PUT", path, text); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		d.manager.with(func() {
			asked, _ := d.manager.asked[0].(*apiv1.PutPromptRequest)
			if asked == nil || asked.Text == nil || asked.GetText() != text || asked.GetName() != "prompts/a b.md" {
				t.Errorf("%q was asked as %v", text, d.manager.asked)
			}
		})
		d.manager.replies(&apiv1.GetPromptResponse{Text: text}, nil)
		c.header = http.Header{"Accept": {"text/plain"}}
		if got := c.get(path); got.status != 200 || got.body != text ||
			got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("got %d %q of %q", got.status, got.body, got.header.Get("Content-Type"))
		}
	}
	d.manager.replies(&apiv1.GetPromptResponse{Text: "x"}, nil)
	for _, accept := range []string{"*/*", "text/plain, application/json", "text/html"} {
		c.header = http.Header{"Accept": {accept}}
		if got := c.get(path); got.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s gets %q", accept, got.header.Get("Content-Type"))
		}
	}
	c.header = http.Header{"Content-Type": {"text/plain"}}
	c.do("PUT", path, "\xff").refused(t, "bytes that are no text", 400, "bad_request")
	c.do("POST", "/api/v1/projects/load", "x").refused(t, "text for a route of JSON", 400, "bad_request")
}
