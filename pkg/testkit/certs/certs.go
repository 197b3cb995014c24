// Package certs makes certificates for tests: a separate CA for each test, in a folder of the test.
package certs

import (
	"path/filepath"
	"testing"
	"time"

	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/mtls/authority"
)

// CA is a CA in a folder.
type CA struct {
	Dir string
	t   testing.TB
}

// New makes a CA.
func New(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t.TempDir(), t}
	ca.must(authority.Init(ca.Dir, time.Hour, time.Now()))
	return ca
}

// Issue makes a certificate for a service, or renews it, and returns its files.
func (c *CA) Issue(service string) mtls.Files {
	c.t.Helper()
	return c.Sign(authority.Request{Identity: mtls.Identity{Service: service}, Valid: time.Hour})
}

// Sign makes a certificate and returns its files.
func (c *CA) Sign(r authority.Request) mtls.Files {
	c.t.Helper()
	ca, err := authority.Open(c.Dir)
	c.must(err)
	dir, _, err := ca.Issue(r, time.Now())
	c.must(err)
	return Files(dir)
}

// Files returns the certificate files in a folder.
func Files(dir string) mtls.Files {
	at := func(name string) string { return filepath.Join(dir, name) }
	return mtls.Files{CA: at(authority.CACert), Cert: at(authority.Cert), Key: at(authority.CertKey)}
}

// Env returns the environment variables with the files' paths.
func Env(f mtls.Files) []string {
	return []string{"KAGED_TLS_CA_FILE=" + f.CA, "KAGED_TLS_CERT_FILE=" + f.Cert, "KAGED_TLS_KEY_FILE=" + f.Key}
}

func (c *CA) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
