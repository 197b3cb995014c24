package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/telemetry"
)

// Env is the environment in which a module builds its service.
type Env struct {
	// Log is the service's log.
	Log *slog.Logger
	// DataDir is the data directory of this host; it may be the zero Path.
	DataDir ownpath.Path
	// Own are kaged's own paths, which no agent may see; see [Own].
	Own []ownpath.Path
	// Node is the permanent id of this data directory; Instance is the id of this start of the process.
	Node, Instance string
	// Database and NATS are the addresses of the stores.
	Database Database
	NATS     NATS
	// Version is the version to show.
	Version string
	// NoSandbox disables cages, Insecure disables sign-in; InsecureAnywhere permits Insecure on any address.
	NoSandbox, Insecure, InsecureAnywhere bool
	// RateLimitsOff disables the rate limits of the API.
	RateLimitsOff bool
	// Private means that the process works for one command and starts each part on first use.
	Private bool
	// File is the operator's configuration at the start, ConfigPath its path.
	File       *config.File
	ConfigPath ownpath.Path
	// Listen is the gateway's TCP address. UIURL is its address for browsers; empty means the listener's.
	Listen, UIURL string
	// Telemetry are the process's traces and metrics, or nil.
	Telemetry *telemetry.Kit

	host   *Host
	module *running
}

// Config fills into from [services.<name>] and the environment; see [config.File.Decode].
func (e *Env) Config(into any) error {
	return e.File.Decode(e.module.Name, into, e.host.opts.Getenv)
}

// Dial returns a connection to a service. It connects on first use and reconnects after a loss.
func (e *Env) Dial(name string) grpc.ClientConnInterface { return e.host.conns.to(name) }

// DialAddress returns a connection to a service at an address from its [Env.Address]. Between hosts the certificate at
// the address must be that service's.
func (e *Env) DialAddress(service, address string) (grpc.ClientConnInterface, error) {
	if address == "" {
		return nil, fault.New(fault.Unavailable, "The service reported no address for other processes.")
	}
	if own := e.host.inProcess(address); own != nil && own.Name == service {
		return e.host.conns.to(own.Name), nil
	}
	return e.host.conns.at(service, address, false), nil
}

// DialWorkspace returns a connection to the tool-runner of a workspace. The empty name means the service tool-runner,
// which a shared deployment does not have. It fails with unavailable for a workspace without an address.
func (e *Env) DialWorkspace(workspace string) (grpc.ClientConnInterface, error) {
	return e.inWorkspace("tool-runner", workspace, func(w config.Workspace) string { return w.Address })
}

// DialSupervisor returns a connection to the sandbox-supervisor of a workspace. It fails as [Env.DialWorkspace] does.
func (e *Env) DialSupervisor(workspace string) (grpc.ClientConnInterface, error) {
	return e.inWorkspace("sandbox-supervisor", workspace, func(w config.Workspace) string { return w.Supervisor })
}

// inWorkspace returns a connection to a service of a workspace. The certificate at the address must name that
// workspace.
func (e *Env) inWorkspace(
	service, workspace string, address func(config.Workspace) string,
) (grpc.ClientConnInterface, error) {
	if workspace == "" && !e.System().Enabled {
		return e.Dial(service), nil
	}
	w, known := e.File.Workspace(workspace)
	if known && address(w) != "" {
		at := destination{service, address(w), workspace, false}
		return &lazy{name: service, dial: func() (*grpc.ClientConn, error) { return e.host.conns.elsewhere(at) }}, nil
	}
	err := fault.New(fault.Unavailable, "The %s of the workspace %q has no known address; name it in [[workspaces]].",
		service, workspace)
	return nil, err.With("subsystem", service)
}

// System is the configuration of a shared deployment. The process of one command belongs to none.
func (e *Env) System() config.System {
	if e.Private {
		return config.System{}
	}
	return e.File.System
}

// Address is the address of this service for other processes: "unix:PATH" or "host:port".
func (e *Env) Address() string { return e.module.address }

// to returns the connection to a service.
func (c *conns) to(name string) grpc.ClientConnInterface {
	if r := c.host.find(name); r != nil && r.direct != nil {
		return r.direct.client
	} else if r != nil {
		return &lazy{name: name, dial: func() (*grpc.ClientConn, error) { return c.get("in:"+name, r.dial) }}
	}
	listen, address, err := place(c.host.opts.File, name, c.host.opts.Getenv)
	if err != nil {
		return &lazy{name: name, dial: func() (*grpc.ClientConn, error) { return nil, err }}
	}
	address = config.Or(address, listensFor(listen), "unix:"+SocketPath(c.host.opts.DataDir.String(), name))
	return c.at(name, address, !mtls.InWorkspace(name))
}

// at returns the connection to a service at an address, which may be a name with several replicas.
func (c *conns) at(name, address string, replicas bool) grpc.ClientConnInterface {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		at := destination{name, address, c.host.workspaceOf(name), replicas}
		return &lazy{name: name, dial: func() (*grpc.ClientConn, error) { return c.elsewhere(at) }}
	}
	return &lazy{name: name, dial: func() (*grpc.ClientConn, error) {
		if err := ownShortDir(filepath.Dir(path), c.host.opts.DataDir.String()); err != nil {
			return nil, err
		}
		return c.get(address, func() (*grpc.ClientConn, error) {
			return grpc.NewClient(address, slices.Concat(rpc.DialOptions(), rpc.TokenOptions(c.host.token),
				c.host.limits.keepalive.Client(), c.host.opts.Dial)...)
		})
	}}
}

func (h *Host) inProcess(address string) *running {
	for _, r := range h.modules {
		if r.address == address && address != "" {
			return r
		}
	}
	return nil
}

// unreachable is the fault of a connection that cannot be attempted.
func unreachable(name string, err error) error {
	return fault.Wrap(err, fault.Unavailable, "The service %s cannot be reached; check its address under [services.%s].",
		name, name).
		With("subsystem", name)
}

// maxSocketPath is the maximum length of a socket's path; the socket address has a final NUL.
const maxSocketPath = 107

// SocketPath returns the path of a service's unix socket: <data>/run/<name>.sock, or a path in a short folder of the
// same data directory if that path is too long for a socket.
func SocketPath(dataDir, name string) string {
	path := filepath.Join(dataDir, "run", name+".sock")
	if len(path) <= maxSocketPath {
		return path
	}
	return filepath.Join(shortDir(dataDir), name+".sock")
}

// identity returns the permanent id of the data directory and a new id for this start.
func identity(dataDir ownpath.Path) (node, instance string, err error) {
	instance = ident.New()
	if dataDir.IsZero() {
		return instance, instance, nil
	}
	path := dataDir.Join("node")
	node, err = readNode(path)
	if err == nil && node != "" {
		return node, instance, nil
	}
	damaged := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be read.", dataDir)
	}
	if err := os.MkdirAll(dataDir.String(), 0o700); err != nil {
		return "", "", fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be made.", dataDir)
	}
	// The file is linked into place, so that two processes that start at the same time read the same id.
	tmp := path + "." + instance
	if err := os.WriteFile(tmp, []byte(instance+"\n"), 0o600); err != nil {
		return "", "", fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be written.", dataDir)
	}
	defer os.Remove(tmp)
	place := os.Link
	if damaged { // as after a power cut: the file exists without an id
		place = os.Rename
	}
	if err := place(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", "", fault.Wrap(err, fault.Unavailable, "The data directory %s cannot be written.", dataDir)
	}
	if node, err = readNode(path); err != nil || node == "" {
		return "", "", fault.Wrap(
			err,
			fault.Unavailable,
			"The data directory %s does not keep its name; remove the file %s.",
			dataDir,
			path,
		)
	}
	return node, instance, nil
}

// readNode returns the id in a file, "" for an invalid file.
func readNode(path string) (string, error) {
	data, err := os.ReadFile(path)
	name := strings.TrimSpace(string(data))
	if err != nil || !ident.Valid(name) {
		return "", err
	}
	return name, nil
}

// dialer is the client side of bufconn.
type dialer interface {
	DialContext(context.Context) (net.Conn, error)
}
