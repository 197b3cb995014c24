package mtls

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/fault"
)

// watchInterval is the interval of checks of the files.
const watchInterval = 10 * time.Second

// expiresSoon is the remaining life of a certificate from which a check warns once an hour; for short lives it is a
// fifth of the life.
const expiresSoon = 7 * 24 * time.Hour

// maxFile is the maximum size of a file of certificates in bytes.
const maxFile = 1 << 20

// Files are the files of a process's certificate, in PEM.
type Files struct {
	// CA is the bundle of CAs for peers' certificates.
	CA string
	// Cert is the certificate, followed by intermediate ones; Key is its private key.
	Cert, Key string
}

// Named reports whether any file is configured.
func (f Files) Named() bool { return f != Files{} }

// Material is the certificate of this process and the CAs that it trusts. Its methods may be called from any goroutine.
type Material struct {
	files    Files
	log      *slog.Logger
	identity Identity

	current atomic.Pointer[material]

	mu     sync.Mutex // guards the rest and serialises checks
	seen   [sha256.Size]byte
	warned time.Time
}

// material is the parsed files at one time.
type material struct {
	cas      *x509.CertPool
	cert     tls.Certificate
	identity Identity
}

// Load reads the files of a service. It fails with bad_request for a missing or unusable file, an expired certificate,
// one that the CA has not signed, and one that does not name exactly one service.
func Load(files Files, log *slog.Logger) (*Material, error) {
	for _, f := range []struct{ key, path string }{
		{"ca_file", files.CA}, {"cert_file", files.Cert}, {"key_file", files.Key},
	} {
		if f.path == "" {
			return nil, fault.New(fault.BadRequest,
				"[tls] names some of ca_file, cert_file and key_file and not %s; name all three, or none.", f.key)
		}
	}
	m := &Material{files: files, log: log}
	text, err := m.read()
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "[tls]: %s.", err)
	}
	loaded, err := m.parse(text)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "[tls]: %s.", err)
	}
	m.identity, m.seen = loaded.identity, text.sum()
	m.current.Store(loaded)
	return m, nil
}

// Identity returns the identity of this process.
func (m *Material) Identity() Identity { return m.identity }

// Watch checks the files every 10 s until ctx ends.
func (m *Material) Watch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.Look()
		}
	}
}

// Look reads the files again and uses them if they are valid. The same invalid files are logged once.
func (m *Material) Look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, leaf := time.Now(), m.current.Load().cert.Leaf
	left, soon := leaf.NotAfter.Sub(now), min(expiresSoon, leaf.NotAfter.Sub(leaf.NotBefore)/5)
	if left < soon && now.Sub(m.warned) >= time.Hour {
		m.warned = now
		m.log.Warn("the certificate expires soon", "file", m.files.Cert, "identity", m.identity.String(), "in", left.Round(
			time.Minute))
	}
	text, err := m.read()
	if err == nil && text.sum() == m.seen {
		return
	}
	var loaded *material
	if err == nil {
		loaded, err = m.parse(text)
	}
	if err == nil && loaded.identity != m.identity {
		err = fmt.Errorf("%s names %s, and this process runs as %s", m.files.Cert, loaded.identity, m.identity)
	}
	sum := text.sum()
	if err != nil && sum == m.seen {
		return
	}
	m.seen = sum
	if err != nil {
		m.log.Warn("new certificates cannot be used; the last usable ones stay", "error", err)
		return
	}
	m.current.Store(loaded)
	m.log.Info("certificates are renewed", "identity", m.identity.String(), "until", loaded.cert.Leaf.NotAfter)
}

// text is the contents of the files, empty for an unreadable file.
type text struct{ ca, cert, key []byte }

func (t text) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{t.ca, t.cert, t.key} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (m *Material) read() (t text, err error) {
	for _, f := range []struct {
		path string
		into *[]byte
	}{{m.files.CA, &t.ca}, {m.files.Cert, &t.cert}, {m.files.Key, &t.key}} {
		data, readErr := readFile(f.path)
		*f.into = data
		if err == nil {
			err = readErr
		}
	}
	return t, err
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		return nil, fmt.Errorf("%s cannot be read: %w", path, at.Err)
	}
	return data, err
}

func (m *Material) parse(t text) (*material, error) {
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(t.ca) {
		return nil, fmt.Errorf("%s holds no certificate of a CA", m.files.CA)
	}
	cert, err := tls.X509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s are not a certificate and its key: %w", m.files.Cert, m.files.Key, err)
	}
	if cert.Leaf == nil {
		if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", m.files.Cert, err)
		}
	}
	id, err := IdentityOf(cert.Leaf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.files.Cert, err)
	}
	now := time.Now()
	if now.After(cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s expired on %s; make a new one with `kaged certs issue DIR %s`",
			m.files.Cert, cert.Leaf.NotAfter.UTC().Format(time.DateTime), id.Service)
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{
		Roots: cas, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return nil, fmt.Errorf("%s is not valid with %s: %w", m.files.Cert, m.files.CA, err)
	}
	return &material{cas, cert, id}, nil
}
