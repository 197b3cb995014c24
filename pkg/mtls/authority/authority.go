// Package authority makes the certificates of package mtls: a deployment's CA in a folder, and the certificates signed
// by it.
//
// The folder holds ca.crt and ca.key. With ca.key anyone can act as any service, so it must not be on a host that runs
// one.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
)

// The files of the CA, and of a certificate.
const (
	CACert  = "ca.crt"
	CAKey   = "ca.key"
	Cert    = "tls.crt"
	CertKey = "tls.key"
)

// Stores are the servers besides the services that can have a certificate; kaged is their client.
var Stores = []string{"postgres", "nats"}

// backdate is the time by which certificates begin in the past, for slow clocks.
const backdate = 5 * time.Minute

// Init makes a CA in a folder. It fails with conflict if the folder has one.
func Init(dir string, valid time.Duration, now time.Time) error {
	for _, name := range []string{CAKey, CACert} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fault.New(fault.Conflict,
				"%s holds a CA already, and a new one would invalidate its certificates; name another folder.", dir)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kaged CA"}, NotBefore: now.Add(-backdate), NotAfter: now.Add(valid),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	keyPEM, err := pemKey(key)
	if err != nil {
		return err
	}
	return write(dir, map[string][]byte{CACert: pemCert(der), CAKey: keyPEM})
}

// CA signs certificates.
type CA struct {
	dir  string
	text []byte
	cert *x509.Certificate
	key  crypto.Signer
}

// Open reads the CA of a folder. It fails with not_found without one, and with bad_request for an unusable one.
func Open(dir string) (*CA, error) {
	text, err := os.ReadFile(filepath.Join(dir, CACert))
	var key []byte
	if err == nil {
		key, err = os.ReadFile(filepath.Join(dir, CAKey))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(err, fault.NotFound, "%s holds no CA; make one with `kaged certs init %[1]s`.", dir)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The CA in %s cannot be read: %s.", dir, err)
	}
	pair, err := tls.X509KeyPair(text, key)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The CA in %s cannot be used: %s.", dir, err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if err != nil || !ok || !cert.IsCA {
		return nil, fault.New(fault.BadRequest, "%s in %s is no certificate of a CA.", CACert, dir)
	}
	return &CA{dir, text, cert, signer}, nil
}

// Request is a certificate to be made.
type Request struct {
	// Identity is a service's, or the debugging identity. The zero Identity makes a certificate of a store.
	Identity mtls.Identity
	// Store is one of Stores if Identity is zero.
	Store string
	// Hosts are additional names and addresses of a store.
	Hosts []string
	// Name is the common name: the certificate's holder in records.
	Name string
	// Valid is the duration of validity; the certificate does not outlive the CA.
	Valid time.Duration
}

// Folder returns the folder of a request's files, below the CA's folder.
func (r Request) Folder() string {
	if r.Store != "" {
		return r.Store
	}
	return strings.TrimSuffix(r.Identity.String(), mtls.Domain)
}

// Issue makes a certificate with a new key, and returns its folder and its end. Existing files there are replaced. It
// fails with bad_request for an invalid identity.
func (c *CA) Issue(r Request, now time.Time) (dir string, until time.Time, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: r.Name}, NotBefore: now.Add(-backdate), NotAfter: now.Add(r.Valid),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if template.NotAfter.After(c.cert.NotAfter) {
		template.NotAfter = c.cert.NotAfter
	}
	if !template.NotAfter.After(now) {
		return "", time.Time{}, fault.New(fault.BadRequest, "The certificate would end at once; the CA in %s ends on %s.",
			c.dir, c.cert.NotAfter.UTC().Format(time.DateTime))
	}
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	switch {
	case r.Store != "":
		if !slices.Contains(Stores, r.Store) {
			return "", time.Time{}, fault.New(fault.BadRequest, "%q is neither %s.", r.Store, strings.Join(Stores, " nor "))
		}
		template.DNSNames, template.ExtKeyUsage = []string{r.Store + mtls.Domain}, []x509.ExtKeyUsage{server}
		for _, h := range r.Hosts {
			if ip := net.ParseIP(h); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
				continue
			}
			template.DNSNames = append(template.DNSNames, h)
		}
	default:
		if err := r.Identity.Check(); err != nil {
			return "", time.Time{}, fault.New(fault.BadRequest, "No certificate can be made: %s.", err)
		}
		template.DNSNames, template.ExtKeyUsage = []string{r.Identity.String()}, []x509.ExtKeyUsage{server, client}
		if r.Identity.Service == mtls.Debug {
			template.ExtKeyUsage = []x509.ExtKeyUsage{client}
		}
	}
	if template.Subject.CommonName == "" {
		template.Subject.CommonName = template.DNSNames[0]
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", time.Time{}, err
	}
	der, err := sign(template, c.cert, &key.PublicKey, c.key)
	if err != nil {
		return "", time.Time{}, err
	}
	keyPEM, err := pemKey(key)
	if err != nil {
		return "", time.Time{}, err
	}
	dir = filepath.Join(c.dir, r.Folder())
	return dir, template.NotAfter, write(dir, map[string][]byte{CACert: c.text, CertKey: keyPEM, Cert: pemCert(der)})
}

func sign(template, parent *x509.Certificate, public any, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}

func pemCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func pemKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// write writes files into a folder, each atomically, keys readable by their owner only. A process that reads between
// two of them keeps its old files.
func write(dir string, files map[string][]byte) error {
	failed := func(err error) error {
		return fault.Wrap(err, fault.Unavailable, "%s cannot be written: %s.", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return failed(err)
	}
	for _, name := range []string{CACert, CAKey, CertKey, Cert} {
		text, given := files[name]
		if !given {
			continue
		}
		mode := fs.FileMode(0o644)
		if name == CAKey || name == CertKey {
			mode = 0o600
		}
		if err := replace(filepath.Join(dir, name), text, mode); err != nil {
			return failed(err)
		}
	}
	return nil
}

func replace(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
