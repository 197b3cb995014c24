// Package server is the gateway's HTTP surface: the layers every request passes, the routes the gateway answers
// itself, and the ones it hands to session-manager's gRPC services.
//
// An answer is a protobuf message in package wirejson's form; a refusal is one kaged.api.v1.ErrorBody, made in one
// function from a *fault.Error, for every layer. A [Server] starts no goroutines.
package server
