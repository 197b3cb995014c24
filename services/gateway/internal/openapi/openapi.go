// Package openapi describes the HTTP API in OpenAPI 3.1, from the descriptors of the contract and with the JSON
// form of package wirejson. The gateway's own routes come from a table in this package.
package openapi

//go:generate go run ./gen

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/httproute"
	contract "kaged.dev/proto"
	"kaged.dev/proto/gen/backends"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

type object = map[string]any

// builder collects the parts of a description.
type builder struct {
	comments map[string]string
	schemas  object
	paths    object
	// strict forbids undescribed keys in the schemas of answers. Clients must accept new keys, so only tests use it.
	strict bool
}

// Document returns the description as JSON. With strict, the schemas of answers forbid undescribed keys; that is
// for tests.
func Document(version string, strict bool) ([]byte, error) {
	b := &builder{schemas: object{}, paths: object{}, strict: strict}
	if err := json.Unmarshal(contract.Comments, &b.comments); err != nil {
		return nil, err
	}
	for _, backend := range backends.All() {
		for _, service := range backend.Services {
			for i := range service.Methods().Len() {
				b.method(service.Methods().Get(i))
			}
		}
	}
	for _, r := range own {
		b.own(r)
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "kaged", "version": version,
			"description": "Run coding agents. Times are milliseconds since the Unix epoch. " +
				"Answers may gain keys; ignore unknown ones.",
		},
		"servers": []any{object{"url": "/"}},
		"security": []any{object{"cookie": []any{}}, object{"token": []any{}}, object{
			"sidecar": []any{},
			"nonce":   []any{},
		}},
		"paths": b.paths,
		"components": object{
			"schemas": b.schemas,
			"responses": object{"Error": object{
				"description": "A refusal. `error.code` is stable, `error.message` is a sentence for a person.",
				"content":     jsonContent(b.ref((&apiv1.ErrorBody{}).ProtoReflect().Descriptor(), false)),
				"headers":     object{"X-Kaged-Request-Id": object{"schema": object{"type": "string"}}},
			}},
			"securitySchemes": object{
				"cookie": object{
					"type": "apiKey", "in": "cookie", "name": "kaged_session",
					"description": "Set by a launch URL. Requests other than GET also send the csrf_token of " +
						"GET /api/v1/me in X-Kaged-CSRF.",
				},
				"token": object{
					"type": "http", "scheme": "bearer",
					"description": "An API token of `kaged token create`.",
				},
				"sidecar": object{
					"type": "apiKey", "in": "header", "name": "X-Kaged-User-Id",
					"description": "Set by a sign-in proxy.",
				},
				"nonce": object{
					"type": "apiKey", "in": "header", "name": "X-Kaged-Auth-Nonce",
					"description": "Proves the sign-in proxy.",
				},
			},
		},
	})
}

func jsonContent(schema object) object { return object{"application/json": object{"schema": schema}} }

// method adds the routes of an RPC.
func (b *builder) method(m protoreflect.MethodDescriptor) {
	for i, route := range httproute.Of(m) {
		id := string(m.Name())
		if i > 0 {
			id += strconv.Itoa(i + 1)
		}
		b.route(m, route, id)
	}
}

func (b *builder) route(m protoreflect.MethodDescriptor, route httproute.Route, id string) {
	path := route.Template()
	answer, _ := proto.GetExtension(m.Options(), apiv1.E_HttpAnswer).(*apiv1.HTTPAnswer)
	text := b.comments[string(m.FullName())]
	op := object{
		"operationId": id, "summary": firstSentence(text), "description": text, "tags": []any{string(m.Parent().Name())},
		"responses": b.responses(m.Output(), route.Answer, answer),
	}
	if said, _ := proto.GetExtension(m.Options(), apiv1.E_TokenScope).(string); said != "" {
		op["x-kaged-token-scope"] = said
	}
	inPath := map[protoreflect.Name]bool{}
	params := []any{}
	for _, name := range variables(path) {
		fd := m.Input().Fields().ByName(protoreflect.Name(name))
		inPath[fd.Name()] = true
		params = append(params, b.parameter(fd, name, "path"))
	}
	if route.Body == "" {
		for i := range m.Input().Fields().Len() {
			fd := m.Input().Fields().Get(i)
			if !inPath[fd.Name()] && !fd.IsList() && !fd.IsMap() && fd.Message() == nil {
				params = append(params, b.parameter(fd, string(fd.Name()), "query"))
			}
		}
	} else {
		content := jsonContent(b.body(m.Input(), inPath))
		if answer.GetTextBody() != "" {
			content["text/plain"] = object{"schema": object{"type": "string"}}
		}
		op["requestBody"] = object{"content": content}
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	b.put(route.Method, path, op)
}

func (b *builder) put(method, path string, op object) {
	item, _ := b.paths[path].(object)
	if item == nil {
		item = object{}
		b.paths[path] = item
	}
	item[strings.ToLower(method)] = op
}

// variables returns the names in braces of a path.
func variables(path string) (names []string) {
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

func (b *builder) parameter(fd protoreflect.FieldDescriptor, name, in string) object {
	schema := b.one(fd, true)
	p := object{"name": name, "in": in, "schema": schema, "description": b.comments[string(fd.FullName())]}
	if in == "path" {
		p["required"] = true
	}
	return p
}

// responses describes the answers of a route: the status of its option http_answer, and 200 if that option is
// absent or has conditions.
func (b *builder) responses(m protoreflect.MessageDescriptor, field string, answer *apiv1.HTTPAnswer) object {
	schema := b.ref(m, false)
	if field != "" {
		schema = b.one(m.Fields().ByName(protoreflect.Name(field)), false)
	}
	content := jsonContent(schema)
	if answer.GetText() != "" {
		content["text/plain"] = object{"schema": object{"type": "string"}}
	}
	list := object{"default": object{"$ref": "#/components/responses/Error"}}
	if status := answer.GetStatus(); status != 0 {
		list[strconv.Itoa(int(status))] = object{"description": http.StatusText(int(status)), "content": content}
	}
	if answer.GetStatus() == 0 || len(answer.GetWhen()) > 0 {
		list["200"] = object{"description": "OK", "content": content}
	}
	return list
}

func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}
