package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
)

// DebugAuditor is a Service that records calls with a debugging certificate. DebugCalled is called before each such
// call; its error refuses the call. The log records such calls in any case.
type DebugAuditor interface {
	DebugCalled(context.Context, rpc.DebugCall) error
}

// fileAt returns the path in a variable, else the configured path, which is relative to the configuration file.
func fileAt(file *config.File, getenv func(string) string, variable, name string) string {
	if v := getenv(variable); v != "" {
		return v
	}
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file.Path), name)
}

// tlsFiles returns the files of the process's certificate, from the environment and the file.
func tlsFiles(file *config.File, getenv func(string) string) mtls.Files {
	return mtls.Files{
		CA:   fileAt(file, getenv, "KAGED_TLS_CA_FILE", file.TLS.CAFile),
		Cert: fileAt(file, getenv, "KAGED_TLS_CERT_FILE", file.TLS.CertFile),
		Key:  fileAt(file, getenv, "KAGED_TLS_KEY_FILE", file.TLS.KeyFile),
	}
}

// NATSFiles are the files for a connection to NATS; "" for an absent one.
type NATSFiles struct{ Credentials, CA, Cert, Key string }

// natsFiles returns the files from the environment and the configuration.
func natsFiles(file *config.File, getenv func(string) string) NATSFiles {
	return NATSFiles{
		Credentials: fileAt(file, getenv, "KAGED_NATS_CREDENTIALS_FILE", file.NATS.CredentialsFile),
		CA:          fileAt(file, getenv, "KAGED_NATS_CA_FILE", file.NATS.CAFile),
		Cert:        fileAt(file, getenv, "KAGED_NATS_CERT_FILE", file.NATS.CertFile),
		Key:         fileAt(file, getenv, "KAGED_NATS_KEY_FILE", file.NATS.KeyFile),
	}
}

// loadTLS returns the process's certificate, nil without files.
func loadTLS(file *config.File, getenv func(string) string, log *slog.Logger) (*mtls.Material, error) {
	files := tlsFiles(file, getenv)
	if !files.Named() {
		return nil, nil
	}
	return mtls.Load(files, log)
}

// listensFor returns the listen address for processes of the same host.
func listensFor(listen []string) string {
	if i := slices.IndexFunc(listen, isUnix); i >= 0 {
		return listen[i]
	}
	return cmp.Or(append(listen, "")...)
}

func isUnix(at string) bool { return strings.HasPrefix(at, "unix:") }

// told returns the address that a service reports to others: the configured one, else its TCP address, else its socket.
func told(listen []string, address string) string {
	for _, at := range listen {
		if address == "" && !isUnix(at) {
			return at
		}
	}
	return cmp.Or(append([]string{address}, listen...)...)
}

// howTLS is the advice on how to make a service's certificate.
const howTLS = "make certificates with `kaged certs init DIR` and `kaged certs issue DIR %s` and name them in " +
	"[tls] ca_file, cert_file " +
	"and key_file (KAGED_TLS_CA_FILE, KAGED_TLS_CERT_FILE, KAGED_TLS_KEY_FILE)"

// checkListen refuses to listen on TCP without the service's certificate, and without an address that others can dial.
// It fails with bad_request.
func (h *Host) checkListen(service string, listen []string, address string) error {
	for _, at := range listen {
		if isUnix(at) {
			continue
		}
		name, port, err := net.SplitHostPort(at)
		ip := net.ParseIP(name)
		switch {
		case err != nil || port == "":
			return fault.New(fault.BadRequest, `[services.%s] listen: %q is neither "unix:PATH" nor "host:port".`, service, at)
		case h.tls == nil:
			return fault.New(fault.BadRequest, "[services.%s] listens on %s without TLS, where other users, containers or "+
				"machines "+
				"reach it: "+howTLS+", or use a unix socket.", service, at, service)
		case h.tls.Identity().Service != service:
			return fault.New(fault.BadRequest, "[services.%s] listens on %s with the certificate of %s: make one with "+
				"`kaged certs issue DIR %s`, and run the service in a process of its own.", service, at, h.tls.Identity(), service)
		case address == "" && (name == "" || ip != nil && ip.IsUnspecified()):
			return fault.New(fault.BadRequest, "[services.%s] listens on %s, which is no address to reach it at: set address "+
				"(%s) to the host's, such as %q.", service, at, config.EnvName("services", service, "address"), "10.1.2.3:"+port)
		}
	}
	return nil
}

// destination is a service over TCP.
type destination struct {
	service, address string
	// workspace is the workspace that its certificate must name, "" for none.
	workspace string
	// replicas is true if the address is a name with several processes.
	replicas bool
}

// workspaceOf returns the workspace that a service's certificate must name by default: this process's own, or the
// configured one.
func (h *Host) workspaceOf(service string) string {
	if !mtls.InWorkspace(service) {
		return ""
	}
	own := ""
	if h.tls != nil {
		own = h.tls.Identity().Workspace
	}
	return cmp.Or(own, h.opts.File.Value(service, "workspace", h.opts.Getenv))
}

// elsewhere connects to a service over TCP.
func (c *conns) elsewhere(at destination) (*grpc.ClientConn, error) {
	if c.host.tls == nil {
		return nil, fault.New(fault.BadRequest, "%s is reached over TCP, which requires a certificate: "+howTLS+".",
			at.address, "SERVICE")
	}
	between := rpc.Between{
		TLS: c.host.tls, Want: mtls.Identity{Service: at.service, Workspace: at.workspace}, Replicas: at.replicas,
		CallTimeout: c.host.limits.callTimeout,
	}
	key := fmt.Sprintf("%s at %s by %t", between.Want, at.address, at.replicas)
	return c.get(key, func() (*grpc.ClientConn, error) {
		return grpc.NewClient("dns:///"+at.address, slices.Concat(between.DialOptions(),
			c.host.limits.keepalive.Client(), c.host.opts.Dial)...)
	})
}

// debugged returns the recorder of calls with a debugging certificate: the log, then the service itself.
func (r *running) debugged(log *slog.Logger) func(context.Context, rpc.DebugCall) error {
	return func(ctx context.Context, c rpc.DebugCall) error {
		log.WarnContext(ctx, "called with a debugging certificate", "method", c.Method, "name", c.Name, "serial", c.Serial,
			"until", c.Until, "remote", c.Remote, "operator", c.Caller.UserID)
		if s, ok := r.service.(DebugAuditor); ok {
			return s.DebugCalled(ctx, c)
		}
		return nil
	}
}

// watchTLS checks the files periodically until stop is called, which waits.
func (h *Host) watchTLS() (stop func()) {
	if h.tls == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.tls.Watch(ctx) }()
	return func() { cancel(); <-done }
}
