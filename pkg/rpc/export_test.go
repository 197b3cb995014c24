package rpc

// ServiceConfig is gRPC's service config of clients between hosts.
var ServiceConfig = serviceConfig
