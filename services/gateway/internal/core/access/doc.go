// Package access identifies the caller of a request and decides whether it may act. It has the auth gate, the
// cookies and CSRF tokens derived from the shared secret, and the list of hosts and origins under which browsers
// may use the gateway.
//
// Only the [Gate] knows the auth mode; its results look the same in every mode. The package stores nothing: cookies
// and CSRF tokens are MACs under the secret that session-manager keeps. So every gateway accepts the tokens of the
// others, and rotating the secret revokes all of them.
package access
