// Package rpc is how services speak gRPC: one set of interceptors for every server and every client.
//
// On a server, in this order, outermost first:
//
//  1. recovery: a panic becomes fault.Internal, its stack goes to the log;
//  2. errors: a *fault.Error anywhere in the chain becomes a status with google.rpc.ErrorInfo and the whole
//     kaged.common.v1.Error; a context's error keeps its meaning; anything else becomes internal and only the log
//     learns its text;
//  3. caller: metadata becomes an ident.Caller in the context.
//
// A connection is given up after a while if its other end has vanished silently; see [Keepalive].
//
// The right to call is checked before: by [Peers] for the process at the other end, and between hosts by the caller
// table, the options callers and only_callers of the contract. [Between] has the options of clients between hosts.
//
// On a client the same in reverse: the caller goes out as metadata, and a status comes back as the *fault.Error that
// left the other side, so that errors.Is(err, fault.NotFound) reads the same on both sides of the wire.
package rpc
