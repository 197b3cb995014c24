package mtls

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// Server returns the configuration of a listener. It requires a certificate signed by a CA of the bundle.
func (m *Material) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := m.current.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, SessionTicketsDisabled: true,
				Certificates: []tls.Certificate{now.cert}, ClientCAs: now.cas, ClientAuth: tls.RequireAndVerifyClientCert,
			}, nil
		},
	}
}

// Client returns the credentials of a connection to a service. At every address the peer must be that service.
func (m *Material) Client(want Identity) credentials.TransportCredentials {
	return &client{credentials.NewTLS(m.config(want)), m, want}
}

func (m *Material) config(want Identity) *tls.Config {
	now := m.current.Load()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: want.String(), RootCAs: now.cas,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &now.cert, nil },
	}
}

// client uses the present files for each handshake.
type client struct {
	credentials.TransportCredentials
	material *Material
	want     Identity
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *client) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.material.config(c.want)).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (c *client) Clone() credentials.TransportCredentials { return c.material.Client(c.want) }
