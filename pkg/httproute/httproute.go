// Package httproute reads the HTTP routes of RPCs from the option google.api.http.
package httproute

import (
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Route is an HTTP route of an RPC.
type Route struct {
	// Method is the HTTP method. Path has variables as google.api.http writes them: {name}, or {name=**} for the rest
	// of the path.
	Method, Path string
	// Body is the field of the request with the body, * for all fields outside the path, "" without a body.
	Body string
	// Answer is the field of the response that is the answer's body, "" for the whole response.
	Answer string
}

// Of returns the routes of an RPC, in the order of the contract. Most RPCs have none.
func Of(m protoreflect.MethodDescriptor) (routes []Route) {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		for _, of := range [...][2]string{
			{http.MethodGet, r.GetGet()},
			{http.MethodPost, r.GetPost()},
			{http.MethodPut, r.GetPut()},
			{http.MethodPatch, r.GetPatch()},
			{http.MethodDelete, r.GetDelete()},
		} {
			if of[1] != "" {
				routes = append(routes, Route{of[0], of[1], r.GetBody(), r.GetResponseBody()})
			}
		}
	}
	return routes
}

// rest is the suffix of a variable for the rest of the path.
const rest = "=**}"

// Pattern returns the route in the form of net/http, such as "GET /files/{path...}".
func (r Route) Pattern() string { return r.Method + " " + strings.ReplaceAll(r.Path, rest, "...}") }

// Template returns the path with variables in the form of OpenAPI, such as "/files/{path}".
func (r Route) Template() string { return strings.ReplaceAll(r.Path, rest, "}") }
