package rpc

import (
	"context"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
)

// keyToken is the metadata key of the service token.
const keyToken = "kaged-service-token"

// TokenOptions returns the options of a client that sends the service token with each call; none for an empty token.
func TokenOptions(token string) []grpc.DialOption {
	if token == "" {
		return nil
	}
	return []grpc.DialOption{grpc.WithPerRPCCredentials(tokenCredentials(token))}
}

type tokenCredentials string

func (t tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{keyToken: string(t)}, nil
}

// RequireTransportSecurity is false, because the token is only sent on unix sockets.
func (tokenCredentials) RequireTransportSecurity() bool { return false }

// A standing is the relation of a connection's peer process to this process.
type standing int

const (
	// unknown is a process that cannot be examined, such as one of another container; it needs the service token.
	unknown standing = iota
	// own is a process outside of every cage, of this process's user or of root.
	own
	// stranger is a process that may not call, even with a token.
	stranger
	// certified is a process on a TCP connection with a certificate.
	certified
)

// Peers decides which processes may call a service, since access to its socket does not suffice. A process of this user
// or of root may call unless it is in a nested pid namespace, as in a cage. One that cannot be examined, in another
// container, may call with the service token. One on a TCP connection needs a certificate, and may make the calls that
// the caller table permits its identity ([CallersOf]). The rule applies to every RPC, health and reflection included,
// and is checked before a message is read.
//
// Refusals are forbidden (a stranger, or an identity that may not call the method) or unauthenticated (no token, or a
// wrong one).
type Peers struct {
	// Token is the service token, "" if no process is admitted by a token.
	Token string
	// TLS is this process's certificate. Without it no TCP connection is accepted.
	TLS *mtls.Material
	// Debugged records a call with a debugging certificate before it is made. Its error refuses the call.
	Debugged func(context.Context, DebugCall) error
	// Log gets the connections of strangers.
	Log *slog.Logger
}

// ServerOptions returns the options of a server with this check. Connections that are neither unix sockets nor TCP are
// accepted as this process's own.
func (p Peers) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(&door{insecure.NewCredentials(), p}),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.ChainUnaryInterceptor(p.recordUnary),
		grpc.ChainStreamInterceptor(p.recordStream),
		grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			if err := p.admit(ctx, info.FullMethodName, info.Header.Get(keyToken)); err != nil {
				return nil, ToStatus(err)
			}
			return ctx, nil
		}),
	}
}

// door examines connecting processes. It stores its result with the connection, so that the caller gets the reason of a
// refusal.
type door struct {
	credentials.TransportCredentials
	peers Peers
}

type verdict struct {
	credentials.CommonAuthInfo
	standing standing
	err      error             // set for a stranger
	identity mtls.Identity     // set for a certified process
	cert     *x509.Certificate // set for a certified process
}

// AuthType implements credentials.AuthInfo.
func (verdict) AuthType() string { return "kaged-peer" }

// ServerHandshake implements credentials.TransportCredentials. On a connection that is not TCP it sends nothing.
func (d *door) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, isTCP := conn.(*net.TCPConn); isTCP {
		return d.shakeHands(conn)
	}
	v := verdict{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	switch c := conn.(type) {
	case *net.UnixConn:
		v.standing, v.err = look(c)
	default:
		v.standing = own
	}
	if v.standing == stranger {
		d.peers.Log.Warn("refused a process on a service's socket", "address", conn.LocalAddr().String(), "reason", v.err)
	}
	return conn, v, nil
}

// shakeHands requires a certificate. A certificate of the CA without a service's name makes the caller a stranger,
// which gets the reason.
func (d *door) shakeHands(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if d.peers.TLS == nil {
		return nil, nil, errors.New("kaged's services take TCP connections with TLS only")
	}
	remote := conn.RemoteAddr().String()
	secured, info, err := credentials.NewTLS(d.peers.TLS.Server()).ServerHandshake(conn)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) { // a port probe, which only connects
			d.peers.Log.Warn("refused a TLS connection", "remote", remote, "error", err)
		}
		return nil, nil, err
	}
	v := verdict{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, standing: certified,
	}
	if t, ok := info.(credentials.TLSInfo); ok && len(t.State.PeerCertificates) > 0 {
		v.cert = t.State.PeerCertificates[0]
		v.identity, v.err = mtls.IdentityOf(v.cert)
	} else {
		v.err = errors.New("no certificate")
	}
	if v.err != nil {
		v.standing = stranger
		d.peers.Log.Warn("refused a certificate", "remote", remote, "reason", v.err)
		v.err = fault.New(fault.Forbidden, "The caller's certificate is none of a service of kaged: %s.", v.err).
			With("reason", "certificate_names_no_service")
	}
	return secured, v, nil
}

// Clone implements credentials.TransportCredentials.
func (d *door) Clone() credentials.TransportCredentials {
	return &door{d.TransportCredentials.Clone(), d.peers}
}

// admit decides about one call.
func (p Peers) admit(ctx context.Context, method string, shown []string) error {
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return fault.New(fault.Internal, "The connection was not examined.")
	}
	v, ok := from.AuthInfo.(verdict)
	switch {
	case !ok:
		return fault.New(fault.Internal, "The connection was not examined.")
	case v.standing == own:
		return nil
	case v.standing == stranger:
		return v.err
	case v.standing == certified:
		if err := permit(v.identity, method); err != nil {
			return err
		}
		return beside(v.identity, p.TLS.Identity())
	case p.Token == "":
		return fault.New(fault.Unauthenticated, "The caller is in another container, where kaged cannot see what it is: "+
			"set KAGED_SERVICE_TOKEN_FILE (or [host] service_token_file) to the same file for both, in no folder that an "+
			"agent can read.").
			With("reason", "service_token_unset")
	case len(shown) != 1 || subtle.ConstantTimeCompare([]byte(shown[0]), []byte(p.Token)) != 1:
		return fault.New(fault.Unauthenticated, "The caller does not show the service token of this service: "+
			"set KAGED_SERVICE_TOKEN_FILE (or [host] service_token_file) to the same file for both.").
			With("reason", "service_token_wrong")
	}
	return nil
}

// The errors of strangers.
func foreignUser(uid uint32) error {
	return fault.New(fault.Forbidden, "kaged's services answer the user they run as, and root; the caller is user %d.",
		uid).
		With("reason", "foreign_user")
}

func caged() error {
	return fault.New(fault.Forbidden, "kaged's services answer no process in a cage or in a container of its own; call "+
		"them from outside of it.").
		With("reason", "caged")
}

var errGone = errors.New("the process is gone")
