// Package access decides who a request is from and whether it may act: the auth gate, the cookies and CSRF tokens that are
// derived from the shared secret, and the hosts and origins a browser may speak to the gateway under.
//
// The [Gate] is the only place that knows the auth mode; what it returns looks the same in every mode. Nothing here is
// stored: cookie and CSRF token are MACs under the secret that session-manager keeps, so every gateway accepts what another
// has handed out, and a new secret makes all of them worthless.
package access
