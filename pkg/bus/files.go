package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/nats-io/nats.go"

	"kaged.dev/pkg/fault"
)

// Files are the client's credentials and the CAs for the server's certificate. They are read for each connection. If a
// certificate or a bundle becomes unusable, the last usable one stays in use.
type Files struct {
	// Credentials holds a JWT and a seed, as `nsc generate creds` writes them.
	Credentials string
	// CA is the bundle of CAs for the server's certificate; without it the system's CAs apply.
	CA string
	// Cert and Key are the client's certificate.
	Cert, Key string
}

// options fails with bad_request if a file cannot be used now.
func (f Files) options(log *slog.Logger) ([]nats.Option, error) {
	var opts []nats.Option
	if f.Credentials != "" {
		if _, err := os.ReadFile(f.Credentials); err != nil {
			return nil, fault.Wrap(err, fault.BadRequest, "[nats] credentials_file: %s.", err)
		}
		opts = append(opts, nats.UserCredentials(f.Credentials))
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, fault.New(fault.BadRequest, "[nats] names one of cert_file and key_file; name both, or none.")
	}
	var cert nats.TLSCertHandler
	if f.Cert != "" {
		kept := &kept[tls.Certificate]{log: log, read: func() (tls.Certificate, error) {
			return tls.LoadX509KeyPair(f.Cert,
				f.Key)
		}}
		if _, err := kept.get(); err != nil {
			return nil, fault.Wrap(err, fault.BadRequest, "[nats] cert_file and key_file: %s.", err)
		}
		cert = kept.get
	}
	var cas nats.RootCAsHandler
	if f.CA != "" {
		kept := &kept[*x509.CertPool]{log: log, read: func() (*x509.CertPool, error) { return pool(f.CA) }}
		if _, err := kept.get(); err != nil {
			return nil, fault.Wrap(err, fault.BadRequest, "[nats] ca_file: %s.", err)
		}
		cas = kept.get
	}
	if cert != nil || cas != nil {
		opts = append(opts, nats.ClientTLSConfig(cert, cas), nats.Secure(&tls.Config{MinVersion: tls.VersionTLS13}))
	}
	return opts, nil
}

func pool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate of a CA", path)
	}
	return p, nil
}

// kept caches a value of a file, which is read again at each use. If the file becomes unusable, the last usable value
// stays.
type kept[T any] struct {
	read func() (T, error)
	log  *slog.Logger

	mu   sync.Mutex // guards the rest
	last T
	has  bool
}

func (k *kept[T]) get() (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := k.read()
	switch {
	case err == nil:
		k.last, k.has = now, true
	case !k.has:
		return now, err
	default:
		k.log.Warn("new certificates for NATS cannot be used; the last usable ones stay", "error", err)
	}
	return k.last, nil
}
