// Package proto holds the comments of the contract; the messages are in the packages of gen.
package proto

import _ "embed"

// Comments are the comments of messages, fields, enums and methods by their full names, an object in JSON.
//
//go:embed gen/openapi/comments.json
var Comments []byte
