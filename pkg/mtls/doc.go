// Package mtls is how services know each other between hosts: certificates of one CA, one identity each.
//
// The identity is a DNS name of the certificate, <service>.kaged, or <service>.<workspace>.kaged for the services of a
// named workspace. A client expects the name of the service it wants, at every address, so that neither DNS nor a
// changed address leads it to another service. A server demands a certificate; which RPCs its holder may call is the
// caller table of package rpc.
//
// [Load] reads the three files, [Material.Watch] reads them again. Files that cannot be used are logged and the last
// usable ones stay. Connections made later use the new files; package rpc ends old connections by their age.
//
// Only TLS 1.3 is spoken, and no session is resumed, so that each connection is checked against the CA of its time.
package mtls
