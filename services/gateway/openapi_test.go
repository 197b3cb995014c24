package gateway_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"kaged.dev/services/gateway/internal/openapi"
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
		want = append(want, templateOf(pattern))
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

// templateOf returns the OpenAPI path of a pattern of net/http.
func templateOf(pattern string) string {
	return strings.NewReplacer("...}", "}", "{$}", "").Replace(pattern)
}

// described returns the strict description, against which answers are checked.
var described = sync.OnceValues(func() (*description, error) {
	text, err := openapi.Document("test", true)
	if err != nil {
		return nil, err
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	x := &description{
		root: root, compiler: jsonschema.NewCompiler(), known: map[string]*jsonschema.Schema{},
		mux: http.NewServeMux(),
	}
	for _, pattern := range append(server.ContractRoutes(), server.OwnRoutes()...) {
		x.mux.Handle(pattern, http.NotFoundHandler())
	}
	return x, x.compiler.AddResource("kaged.json", root)
})

type description struct {
	root     any
	mux      *http.ServeMux
	mu       sync.Mutex // guards the two below
	compiler *jsonschema.Compiler
	known    map[string]*jsonschema.Schema
}

// conforms fails the test unless the description has the answer for its route.
func conforms(t testing.TB, r *http.Request, got answer) {
	t.Helper()
	x, err := described()
	if err != nil {
		t.Fatal(err)
	}
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	method := r.Method
	if method == http.MethodHead {
		return // has no body
	}
	_, pattern := x.mux.Handler(r)
	pointer := "/components/responses/Error"
	if _, path, routed := strings.Cut(templateOf(pattern), " "); routed {
		responses := "/paths/" + escaped(path) + "/" + strings.ToLower(method) + "/responses/"
		status := http.StatusText(got.status)
		if _, said := x.at(responses + strconv.Itoa(got.status)); said {
			pointer = responses + strconv.Itoa(got.status)
		} else if got.status < 400 {
			t.Errorf("%s answers %d %s, which is not described", pattern, got.status, status)
			return
		}
	}
	if _, said := x.at(pointer + "/content"); !said {
		return // the description has no body for the status, as for 302
	}
	pointer += "/content/" + escaped(media) + "/schema"
	if _, said := x.at(pointer); !said {
		t.Errorf("%s answers %d with %q, which is not described", pattern, got.status, media)
		return
	}
	if media != "application/json" {
		return
	}
	schema, err := x.schema(pointer)
	if err != nil {
		t.Fatal(err)
	}
	body, err := jsonschema.UnmarshalJSON(strings.NewReader(got.body))
	if err == nil {
		err = schema.Validate(body)
	}
	if err != nil {
		t.Errorf("%s %s answers %d %s: %v", method, r.URL.Path, got.status, got.body, err)
	}
}

func (x *description) schema(pointer string) (*jsonschema.Schema, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.known[pointer]; s != nil {
		return s, nil
	}
	s, err := x.compiler.Compile("kaged.json#" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(pointer))
	x.known[pointer] = s
	return s, err
}

// at returns the value at a JSON pointer in the description.
func (x *description) at(pointer string) (any, bool) {
	v := x.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]; !ok {
			return nil, false
		}
	}
	return v, true
}

// escaped escapes a key for a JSON pointer.
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
