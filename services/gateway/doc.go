// Package gateway is the operator's surface of kaged: one TCP port for HTTP and WebSocket.
//
// A request passes the layers of package server, the same list for all. It gets an id and the headers of every
// answer, is refused under a foreign host or origin, is identified by the gate (the only place that knows the auth
// mode), and needs a CSRF token if it may change state. The contract's routes then become gRPC calls of
// session-manager and the service issue, through grpc-gateway, with messages in the JSON form of package wirejson.
// The gateway itself answers the routes that need no single RPC: sign-in, probes, /api/v1/me, the console and its
// files, the API's description, downloads, streams of events, and sockets.
//
// A socket holds its session at the process that has the session's lease, through an Attach stream; the end of the
// stream releases the session. Rendered frames reach every gateway through one live subscription and are relayed
// byte for byte. JetStream is read only to fill a client's gaps. Package channel decides which frame comes next;
// package socket speaks the protocol.
//
// The gateway stores nothing: it has open sockets and streams, and caches. Any number of gateways serve the same
// sessions, and a killed gateway costs its clients a reconnect with resume_from_seq.
//
// Goroutines: one accepts connections and starts one per connection; one sends audit records; one reads the bus;
// one polls for a rotated secret; one each pings the session sockets and ends old system sockets. Packages socket
// and systemsocket list those of a socket. All end before Run returns.
package gateway
