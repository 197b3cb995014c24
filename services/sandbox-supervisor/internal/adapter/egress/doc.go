// Package egress is the gate of a cage's network. It runs outside the cage and serves the sockets that package netns
// bound inside.
//
// Inside the cage each allowed name has a synthetic address, given out by the gate's resolver. Every other name does
// not exist, and no query is forwarded. A connection to a synthetic address reaches the gate, which finds the name by
// the address, resolves it, refuses non-public addresses, connects to an address that it has checked, and relays bytes.
// It does not terminate TLS: it compares the server name of a ClientHello, or the Host of every HTTP request, with the
// rule before it forwards those bytes.
//
// For a host with a [Credential], programs use plain HTTP on port 80. The gate speaks TLS to the host and adds the
// credential, which never enters the cage.
//
// The main type is [Gate]: one per cage, made by [New], served by [Gate.Serve]. Goroutines: one per socket, two per
// connection, those of net/http for credentials, one that reports attempts, and one that polls the kernel's counters.
// All have ended when Serve returns, with two exceptions: a closing packet socket takes the kernel some milliseconds,
// and net/http's client goroutines end after Serve has closed their connections.
package egress
