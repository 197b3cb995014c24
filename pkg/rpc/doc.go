// Package rpc has the gRPC interceptors and options of all servers and clients.
//
// On a server, in this order, outermost first:
//
// 1. recovery: a panic becomes fault.Internal, its stack goes to the log; 2. errors: a *fault.Error anywhere in the
// chain becomes a status with google.rpc.ErrorInfo and the whole
//
//	kaged.common.v1.Error; a context's error keeps its meaning; anything else becomes internal and only the log
//	learns its text;
//
// 3. caller: metadata becomes an ident.Caller in the context.
//
// A connection whose peer has vanished silently is closed after a time; see [Keepalive].
//
// The right to call is checked before: by [Peers] for the process at the other end, and between hosts by the caller
// table, the options callers and only_callers of the contract. [Between] has the options of clients between hosts.
//
// A client does the reverse: the caller is sent as metadata, and a status is converted back to the *fault.Error of the
// server, so that errors.Is(err, fault.NotFound) works on both sides.
package rpc
