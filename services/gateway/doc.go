// Package gateway is the operator's surface of kaged: the one TCP port, HTTP and WebSocket.
//
// A request passes the layers of package server, the same list for all: it gets an id and the headers every answer
// has, is refused under a foreign host or origin, is recognised by the gate (the only place that knows the auth
// mode), and needs a CSRF token if it may change state. The contract's routes then become calls of session-manager
// over grpc-gateway, with messages in package wirejson's form; the gateway itself answers only sign-in, probes,
// /api/v1/me, the page at /, and the sockets.
//
// A socket holds its session at the process that has the session's lease, through an Attach stream; the end of the
// stream is the release. Frames reach every gateway through one live subscription, rendered already, and are
// relayed byte for byte; JetStream is read only to fill a client's gaps. Which frame comes next is package
// channel's to decide, how a client is spoken to package socket's.
//
// The gateway's only state are open sockets: any number of gateways serve the same sessions, and one that is killed
// costs its clients a reconnect with resume_from_seq.
//
// Goroutines: one accepts connections and starts one per connection; one sends audit records; one has the bus; one
// pings sockets; each socket has three (see package socket). All end before Run returns.
package gateway
