package openapi

import (
	"maps"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/frametype"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ownRoute is a route that the gateway answers itself.
type ownRoute struct {
	method, path, id, text string
	// open is true for routes without sign-in.
	open bool
	// query has the name and the description of each query parameter.
	query [][2]string
	// answers has the bodies by status. A body is a message, a schema, a media type, a list of these, or nil for no
	// body.
	answers map[string]any
}

// page is the media type of HTML answers.
const page = "text/html"

// refusedPage is a refusal that browsers receive as HTML.
var refusedPage = []any{&apiv1.ErrorBody{}, page}

var own = []ownRoute{
	{
		method: http.MethodGet, path: "/healthz", id: "Healthz", open: true, text: "Reports that the process is alive.",
		answers: map[string]any{"200": &apiv1.Probe{}},
	},
	{
		method: http.MethodGet, path: "/readyz", id: "Readyz", open: true, text: "Reports whether requests can be served.",
		answers: map[string]any{"200": &apiv1.Probe{}, "503": &apiv1.Probe{}},
	},
	{
		method: http.MethodGet, path: "/", id: "Home", open: true, text: "The console.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/sessions/{id}", id: "SessionPage", open: true,
		text:    "The console's page of a session.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/projects", id: "ProjectsPage", open: true, text: "The console's page of projects.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/projects/{id}", id: "ProjectPage", open: true,
		text:    "The console's page of a project.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/processes", id: "ProcessesPage", open: true, text: "The console's page of processes.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/audit", id: "AuditPage", open: true, text: "The console's page of the audit log.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/settings", id: "SettingsPage", open: true, text: "The console's page of settings.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/static/{file}", id: "Static", open: true,
		text:    "A file of the console, with an entity tag, in gzip if the client accepts it.",
		answers: map[string]any{"200": nil, "304": nil},
	},
	{
		method: http.MethodGet, path: "/static/page.css", id: "Style", open: true,
		text:    "The style sheet of pages without scripts.",
		answers: map[string]any{"200": "text/css"},
	},
	{
		method: http.MethodGet, path: "/docs/api", id: "Docs", text: "Returns this description as a page.",
		answers: map[string]any{"200": page},
	},
	{
		method: http.MethodGet, path: "/docs/api/{file}", id: "DocsFile", text: "A file of the page at /docs/api.",
		answers: map[string]any{"200": nil},
	},
	{
		method: http.MethodGet, path: "/api/v1/projects/{id}/download/{path}", id: "DownloadProjectFile",
		text:    "Returns the bytes of a file of the project.",
		answers: map[string]any{"200": "application/octet-stream"},
	},
	{
		method: http.MethodGet, path: "/api/v1/sessions/{id}/stream", id: "StreamSession",
		text: "The frames of a session as server-sent events, for any number of readers, which do not hold " +
			"the session. Each event has the frame " +
			"as data, its type, and the positions in all channels as id. Last-Event-ID resumes; without it the " +
			"stream begins with new frames. " +
			"The last event is closing {code, reason}: session_ended, resume_failed, signed_out or server_shutdown.",
		query:   [][2]string{{"channels", "output, events, or both with a comma; the default is both."}},
		answers: map[string]any{"200": "text/event-stream"},
	},
	{
		method: http.MethodGet, path: "/api/v1/projects/{id}/logs/stream", id: "FollowProjectLogs",
		text: "New entries of a project's log as server-sent events: event log, with an entry as data on one line. " +
			"Entries are not repeated: connect first, then read GET /api/v1/projects/{id}/logs and skip ids received before. " +
			"Fails with not_found, and with invalid_parameter for an unknown level or source. The server ends the stream of a " +
			"reader that has missed entries.",
		query: [][2]string{
			{"level", "The lowest level: debug, info, warn or error."},
			{"source", "daemon, plugin, session or subagent."},
		},
		answers: map[string]any{"200": "text/event-stream"},
	},
	{
		method: http.MethodGet, path: "/api/v1/socket", id: "SystemSocket",
		text: "The system socket, subprotocol kaged.v1: changes that concern the operator, on the channel system. " +
			"system.hello comes first. The types are " + systemTypes() + ".",
		query:   [][2]string{{"csrf", "The CSRF token, if it is not in a header."}},
		answers: map[string]any{"101": nil},
	},
	{
		method: http.MethodGet, path: "/api/versions", id: "Versions", open: true, text: "Lists the versions of the API.",
		answers: map[string]any{"200": &apiv1.Versions{}},
	},
	{
		method: http.MethodGet, path: "/api/v1/dsl/schema", id: "DslSchema", open: true,
		text:  "Returns the JSON Schema of the project file.",
		query: [][2]string{{"version", "The version of the project file; the default is the latest."}},
		answers: map[string]any{"200": object{
			"type": "object", "required": []any{"version", "schema"},
			"properties": object{
				"version": object{"type": "integer"}, "schema": object{"type": "object"},
			},
		}},
	},
	{
		method: http.MethodGet, path: "/api/v1/launch", id: "Launch", open: true,
		text: "Signs a browser in with a launch token. Answers with JSON to a client that accepts it, " +
			"else with 302 to the home page. " +
			"Loopback mode only.",
		query:   [][2]string{{"token", "The launch token."}},
		answers: map[string]any{"200": &apiv1.Launched{}, "302": nil, "401": refusedPage},
	},
	{
		method: http.MethodGet, path: "/launch", id: "LaunchAlias", open: true, text: "The same as /api/v1/launch.",
		query:   [][2]string{{"token", "The launch token."}},
		answers: map[string]any{"200": &apiv1.Launched{}, "302": nil, "401": refusedPage},
	},
	{
		method: http.MethodPost, path: "/api/v1/auth/rotate", id: "SignOutOthers",
		text: "Signs every other browser out: all earlier cookies are revoked, and the caller's browser gets " +
			"new ones. Loopback mode only, and not for API tokens.",
		answers: map[string]any{"200": &apiv1.Launched{}},
	},
	{
		method: http.MethodGet, path: "/api/v1/me", id: "Me",
		text:    "Returns the caller and the daemon; sets the CSRF cookie.",
		answers: map[string]any{"200": &apiv1.Me{}},
	},
	{
		method: http.MethodGet, path: "/api/v1/openapi.json", id: "OpenAPI", text: "Returns this description.",
		answers: map[string]any{"200": object{"type": "object"}},
	},
	{
		method: http.MethodGet, path: "/api/v1/sessions/{id}/socket", id: "SessionSocket",
		text: "Upgrades to the session's WebSocket, subprotocol kaged.v1. Frames are {channel, seq, type, payload}; " +
			"docs/reference/frames.md lists them. Needs the CSRF token in X-Kaged-CSRF, in csrf, or in a subprotocol " +
			"kaged.csrf.TOKEN, unless the request has an API token of scope run.",
		query: [][2]string{
			{"csrf", "The CSRF token, for a page that cannot set headers."},
			{"takeover", "1 closes the socket that holds the session."},
		},
		answers: map[string]any{"101": nil},
	},
}

// own adds one of the gateway's own routes.
func (b *builder) own(r ownRoute) {
	op := object{
		"operationId": r.id, "summary": firstSentence(r.text), "description": r.text,
		"tags": []any{"Gateway"},
	}
	if r.open {
		op["security"] = []any{}
	}
	var params []any
	for _, name := range variables(r.path) {
		params = append(params, object{
			"name": name, "in": "path", "required": true,
			"schema": object{"type": "string"},
		})
	}
	for _, q := range r.query {
		params = append(params, object{
			"name": q[0], "in": "query", "description": q[1],
			"schema": object{"type": "string"},
		})
	}
	if params != nil {
		op["parameters"] = params
	}
	responses := object{"default": object{"$ref": "#/components/responses/Error"}}
	for status, has := range r.answers {
		response := object{"description": r.id}
		if content := b.content(has); len(content) > 0 {
			response["content"] = content
		}
		responses[status] = response
	}
	op["responses"] = responses
	b.put(r.method, r.path, op)
}

// content returns the bodies of an answer by media type.
func (b *builder) content(of any) object {
	switch of := of.(type) {
	case proto.Message:
		return jsonContent(b.ref(of.ProtoReflect().Descriptor(), false))
	case object:
		return jsonContent(of)
	case string:
		return object{of: object{"schema": object{"type": "string"}}}
	case []any:
		all := object{}
		for _, one := range of {
			maps.Copy(all, b.content(one))
		}
		return all
	}
	return nil
}

// systemTypes returns the names of the types of the system socket.
func systemTypes() string {
	var names []string
	for _, t := range frametype.System() {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}
