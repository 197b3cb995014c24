// Package egress is the gate of a cage's network. It stands outside of the cage, at the sockets that package netns bound in it.
//
// Inside, each name that the policy allows has a made-up address, and the gate's resolver gives it out; every other name does not
// exist, and no query is ever passed on. Who connects to such an address reaches the gate, which knows by the address what is
// meant, looks the name up itself, refuses what it resolves to where that is not on the public network, connects to the very
// address it has checked, and passes bytes. It does not take part in TLS. It holds the server name of a ClientHello, or the Host
// of every HTTP request, against the rule before what names it goes out.
//
// Where the operator gave a [Credential] for a host, programs reach it by plain HTTP on port 80, and the gate speaks TLS to the
// host and adds the credential, which never enters the cage.
//
// The main type is [Gate]: one per cage, made by [New], served by [Gate.Serve]. Its goroutines: one per socket, two
// per connection, those of net/http where there is a credential, one that reports attempts while there are any, and
// one for as long as it takes to look at what the kernel counts. All have ended when Serve returns, but for one that
// closes a socket the kernel takes some milliseconds to close, and those of net/http's client, which end once their
// connections, which Serve closed, are gone.
package egress
