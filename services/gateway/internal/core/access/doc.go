// Package access identifies the caller of a request and decides whether it may act: the auth gate, the cookies and
// CSRF tokens that are derived from the shared secret, and the hosts and origins a browser may speak to the gateway
// under.
//
// The [Gate] is the only place that knows the auth mode; its results look the same in every mode. The package has
// no store: cookie and CSRF token are MACs under the secret that session-manager keeps, so every gateway accepts
// the tokens of another, and a new secret makes all of them worthless.
package access
