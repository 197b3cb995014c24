package gateway

import (
	"bytes"
	"os"
	"path/filepath"

	"kaged.dev/pkg/fault"
)

// minNonce and maxNonce are the minimum and maximum length of the nonce in a file, in bytes.
const (
	minNonce = 16
	maxNonce = 4096
)

// readNonce sets the sidecar's nonce from its file, if a file is configured. It trims surrounding white space. It
// fails with bad_request.
func readNonce(cfg *Config, configPath string) error {
	name := cfg.SidecarNonceFile
	if name == "" {
		return nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(configPath), name)
	}
	info, err := os.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxNonce) {
		return fault.New(fault.BadRequest,
			"[services.gateway] sidecar_nonce_file: %s is not a regular file of at most %d bytes.", name, maxNonce)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return fault.Wrap(err, fault.BadRequest, "[services.gateway] sidecar_nonce_file: %s cannot be read.", name)
	}
	if data = bytes.TrimSpace(data); len(data) < minNonce {
		return fault.New(fault.BadRequest, "[services.gateway] sidecar_nonce_file: %s has a nonce of %d bytes; make one "+
			"with `openssl rand -hex 32`.", name, len(data))
	}
	cfg.SidecarNonce = string(data)
	return nil
}
