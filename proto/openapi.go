// Package proto holds the contract's generated description of the HTTP API; the messages are in the packages of gen.
package proto

import _ "embed"

// OpenAPI is the description of the public HTTP routes, Swagger 2.0 in JSON.
//
//go:embed gen/openapi/kaged.swagger.json
var OpenAPI []byte
