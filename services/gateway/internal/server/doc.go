// Package server is the gateway's HTTP surface: the layers of every request, the routes that the gateway answers
// itself, and the routes of the contract, which become gRPC calls of their backends.
//
// An answer is a protobuf message in the JSON form of package wirejson. Each refusal, of any layer, is one
// kaged.api.v1.ErrorBody, which one function makes from a *fault.Error. A [Server] starts no goroutines.
package server
