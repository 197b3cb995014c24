// Package mtls authenticates services between hosts by certificates of one CA, each with one identity.
//
// The identity is a DNS name of the certificate, <service>.kaged, or <service>.<workspace>.kaged for the services of a
// named workspace. A client requires the name of the wanted service at every address, so that neither DNS nor a changed
// address leads it to another service. A server demands a certificate; which RPCs its holder may call is the caller
// table of package rpc.
//
// [Load] reads the three files, and [Material.Watch] reads them periodically. Unusable files are logged, and the last
// usable ones stay in use. Connections made later use the new files; package rpc ends old connections by their age.
//
// Only TLS 1.3 without session resumption is used, so that each connection is checked against the present CA.
package mtls
