// Package apitest compares answers of the API with its OpenAPI description, for tests.
package apitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kaged.dev/services/gateway/internal/openapi"
	"kaged.dev/services/gateway/internal/server"
)

// description is the description in its strict form: answers may have no keys but those described.
type description struct {
	root     any
	mux      *http.ServeMux // finds the pattern of a request
	mu       sync.Mutex     // guards the two below
	compiler *jsonschema.Compiler
	known    map[string]*jsonschema.Schema
}

var load = sync.OnceValues(func() (*description, error) {
	text, err := openapi.Document("test", true)
	if err != nil {
		return nil, err
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &description{
		root: root, compiler: jsonschema.NewCompiler(), known: map[string]*jsonschema.Schema{},
		mux: http.NewServeMux(),
	}
	for _, pattern := range append(server.ContractRoutes(), server.OwnRoutes()...) {
		d.mux.Handle(pattern, http.NotFoundHandler())
	}
	return d, d.compiler.AddResource("kaged.json", root)
})

// Template returns a pattern of net/http in the form of the description.
func Template(pattern string) string {
	return strings.NewReplacer("...}", "}", "{$}", "").Replace(pattern)
}

// Check returns an error unless an answer is described for the request's route. It needs the body only of JSON.
func Check(r *http.Request, status int, header http.Header, body []byte) error {
	d, err := load()
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return nil // an answer without a body
	}
	media := mediaOf(header)
	_, pattern := d.mux.Handler(r)
	pointer := "/components/responses/Error"
	if _, path, routed := strings.Cut(Template(pattern), " "); routed {
		own := "/paths/" + escape(path) + "/" + strings.ToLower(r.Method) + "/responses/" + strconv.Itoa(status)
		if _, described := d.at(own); described {
			pointer = own
		} else if status < 400 {
			return fmt.Errorf("%s answers %d, which is not described", pattern, status)
		}
	}
	if _, described := d.at(pointer + "/content"); !described {
		return nil // no body is described, as for 302
	}
	pointer += "/content/" + escape(media) + "/schema"
	if _, described := d.at(pointer); !described {
		return fmt.Errorf("%s answers %d with %q, which is not described", pattern, status, media)
	}
	if media != "application/json" {
		return nil
	}
	schema, err := d.schema(pointer)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("%s %s answers %d %s: %w", r.Method, r.URL.Path, status, body, err)
	}
	return nil
}

// Transport returns next with a check of each answer below /api/; wrong gets the errors.
func Transport(next http.RoundTripper, wrong func(error)) http.RoundTripper {
	return transport{next, wrong}
}

type transport struct {
	next  http.RoundTripper
	wrong func(error)
}

// RoundTrip reads a JSON body whole, and leaves streams alone.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || !strings.HasPrefix(r.URL.Path, "/api/") || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	var body []byte
	if mediaOf(resp.Header) == "application/json" {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err := Check(r, resp.StatusCode, resp.Header, body); err != nil {
		t.wrong(err)
	}
	return resp, nil
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func mediaOf(header http.Header) string {
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return media
}

func (d *description) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.known[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile("kaged.json#" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(pointer))
	d.known[pointer] = s
	return s, err
}

// at returns the value at a JSON pointer in the description.
func (d *description) at(pointer string) (any, bool) {
	v := d.root
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

// escape returns a key in the form of JSON pointers.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
