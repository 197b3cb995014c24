// Package client speaks kaged's public API as any other client does: HTTP with JSON, and the session socket. It signs
// in over the daemon's unix socket, so the launch URL that a daemon printed stays unspent.
package client
