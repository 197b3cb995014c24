package sandboxsupervisor

import (
	"fmt"
	"path/filepath"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/egress"
)

// Config is the table [services.sandbox-supervisor].
type Config struct {
	// Cgroups selects the use of cgroups: "auto" uses one for each command if they are available, and for cages with
	// limits; "off" uses none.
	Cgroups string `toml:"cgroups"`
	// KillGrace is the time from SIGTERM to SIGKILL for a command that exceeded its time limit.
	KillGrace config.Duration `toml:"kill_grace"`
	// CancelGrace is the same for cancelled commands and for those whose owner has ended.
	CancelGrace config.Duration `toml:"cancel_grace"`
	// StartTimeout is the time in which the shim, or a command, must start; after it the shim counts as dead.
	StartTimeout config.Duration `toml:"start_timeout"`
	// KillTimeout is the time in which the shim must report the end of a killed command; after it the shim counts as dead.
	KillTimeout config.Duration `toml:"kill_timeout"`
	// DrainWait is the maximum wait for output after a command and its descendants have ended while another process holds
	// its terminal open.
	DrainWait config.Duration `toml:"drain_wait"`
	// MaxCommands is the maximum number of running commands.
	MaxCommands int `toml:"max_commands"`
	// MaxCommandBytes is the maximum size of a command's arguments and environment together, in bytes.
	MaxCommandBytes int `toml:"max_command_bytes"`
	// MaxCommandStrings is the maximum number of a command's arguments and variables together.
	MaxCommandStrings int `toml:"max_command_strings"`
	// StdinBytes is the maximum size of unread standard input kept for a command.
	StdinBytes int `toml:"stdin_bytes"`

	// MaxCages is the maximum number of cages, those of single commands included.
	MaxCages int `toml:"max_cages"`
	// CageUID is the host's user and group of processes in cages if kaged runs as root. It should own no file of the host.
	CageUID int `toml:"cage_uid"`
	// SystemPaths are the host's paths visible read-only in every cage: links are recreated, missing paths are left out.
	SystemPaths []string `toml:"system_paths"`
	// TmpBytes limits the sum of a cage's private folders: /tmp, /var/tmp, /dev/shm, /run and its home.
	TmpBytes int64 `toml:"tmp_bytes"`
	// CageSpare is the time for which a spare cage init is kept after the last cage was made: a process of 4 MB that cuts
	// the time to make a cage to a third. "0s" keeps no spare.
	CageSpare config.Duration `toml:"cage_spare"`

	// NetConnections is the maximum number of open connections of a cage.
	NetConnections int `toml:"net_connections"`
	// NetResolveTimeout is the time limit for looking up a name that a cage's policy allows, NetConnectTimeout for
	// connecting to it.
	NetResolveTimeout config.Duration `toml:"net_resolve_timeout"`
	NetConnectTimeout config.Duration `toml:"net_connect_timeout"`
	// NetHelloTimeout is the time from the first byte of a connection in which a program in a cage must name the server.
	NetHelloTimeout config.Duration `toml:"net_hello_timeout"`
	// NetIdleTimeout closes a connection out of a cage without traffic.
	NetIdleTimeout config.Duration `toml:"net_idle_timeout"`
	// NetResolvedFor is the time for which the addresses of a name are cached, NetResolvedNames the number of cached
	// names.
	NetResolvedFor   config.Duration `toml:"net_resolved_for"`
	NetResolvedNames int             `toml:"net_resolved_names"`
	// NetCredentialBody is the maximum size in bytes of the body of a request with a credential.
	NetCredentialBody int64 `toml:"net_credential_body"`
	// PrivateHosts are the names that may resolve to addresses of private networks and of this machine: "name", or
	// "*.name" for all names below. Every other name of a policy must resolve to a public address.
	PrivateHosts []string `toml:"private_hosts"`
	// Credentials are added, by "host:port", to requests of cages whose policy allows the host: programs use plain
	// http://host/, and the gate forwards over TLS, with the credential, to host:port.
	Credentials map[string]Credential `toml:"credentials"`

	// SessionProcesses is the maximum number of running detached commands of one session.
	SessionProcesses int `toml:"session_processes"`
	// KeptOutputBytes is the retained size of the end of a detached command's output.
	KeptOutputBytes int `toml:"kept_output_bytes"`
	// EndedProcesses, EndedBytes and EndedFor limit the remembered detached commands after their end: their number in one
	// session, their bytes in total, and the time.
	EndedProcesses int             `toml:"ended_processes"`
	EndedBytes     int             `toml:"ended_bytes"`
	EndedFor       config.Duration `toml:"ended_for"`
}

// Credential is the table [services.sandbox-supervisor.credentials."host:port"]. Programs in a cage use plain
// http://host/, and the gate forwards over TLS, with the header, to host:port.
type Credential struct {
	// Header is the header's name, such as Authorization.
	Header string `toml:"header"`
	// Value is its value, such as "Bearer ${GITHUB_TOKEN}"; "${VAR}" is replaced from kaged's environment.
	Value egress.Secret `toml:"value"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Cgroups: "auto", KillGrace: config.Duration(5 * time.Second), CancelGrace: config.Duration(time.Second),
		StartTimeout: config.Duration(10 * time.Second), KillTimeout: config.Duration(15 * time.Second),
		DrainWait: config.Duration(250 * time.Millisecond), MaxCommands: 512, MaxCommandBytes: 1 << 20,
		MaxCommandStrings: 16384, StdinBytes: 256 << 10, MaxCages: 256, CageUID: 59999,
		SystemPaths: []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"}, TmpBytes: 512 << 20,
		CageSpare:      config.Duration(time.Minute),
		NetConnections: 256, NetResolveTimeout: config.Duration(5 * time.Second),
		NetConnectTimeout: config.Duration(10 * time.Second),
		NetHelloTimeout:   config.Duration(10 * time.Second), NetIdleTimeout: config.Duration(15 * time.Minute),
		NetResolvedFor: config.Duration(30 * time.Second), NetResolvedNames: 1024, NetCredentialBody: 256 << 20,
		SessionProcesses: 64, KeptOutputBytes: 256 << 10, EndedProcesses: 64, EndedBytes: 64 << 20,
		EndedFor: config.Duration(time.Hour),
	}
}

// maxCommandBytes is the highest value of max_command_bytes: Linux accepts no more than 2 MiB with the usual stack
// size.
const maxCommandBytes = 2 << 20

// Validate checks a Config.
func (c Config) Validate() error {
	if c.Cgroups != "auto" && c.Cgroups != "off" {
		return fmt.Errorf("cgroups is %q; it can be \"auto\" or \"off\"", c.Cgroups)
	}
	for _, d := range []struct {
		key   string
		value config.Duration
	}{
		{"kill_grace", c.KillGrace},
		{"cancel_grace", c.CancelGrace},
		{"start_timeout", c.StartTimeout},
		{"kill_timeout", c.KillTimeout},
		{"drain_wait", c.DrainWait},
		{"net_resolve_timeout", c.NetResolveTimeout},
		{"net_connect_timeout", c.NetConnectTimeout},
		{"net_hello_timeout", c.NetHelloTimeout},
		{"net_resolved_for", c.NetResolvedFor},
	} {
		if d.value <= 0 || d.value.D() > time.Hour {
			return fmt.Errorf("%s is %s; it must be more than nothing and at most an hour", d.key, d.value)
		}
	}
	if c.NetIdleTimeout < config.Duration(time.Second) || c.NetIdleTimeout.D() > 30*24*time.Hour {
		return fmt.Errorf("net_idle_timeout is %s; it must be between a second and 30 days", c.NetIdleTimeout)
	}
	if c.NetCredentialBody < 1 || c.NetCredentialBody > 1<<40 {
		return fmt.Errorf("net_credential_body is %d; it must be between 1 and %d", c.NetCredentialBody, int64(1)<<40)
	}
	if err := c.validateHosts(); err != nil {
		return err
	}
	if c.EndedFor <= 0 || c.EndedFor.D() > 30*24*time.Hour {
		return fmt.Errorf("ended_for is %s; it must be more than nothing and at most 30 days", c.EndedFor)
	}
	for _, n := range []struct {
		key         string
		value, most int
	}{
		{"max_commands", c.MaxCommands, 1 << 16},
		{"max_command_bytes", c.MaxCommandBytes, maxCommandBytes},
		{"max_command_strings", c.MaxCommandStrings, 1 << 18},
		{"net_connections", c.NetConnections, 1 << 16},
		{"net_resolved_names", c.NetResolvedNames, 1 << 20},
		{"stdin_bytes", c.StdinBytes, 64 << 20},
		{"max_cages", c.MaxCages, 1 << 14},
		{"session_processes", c.SessionProcesses, 1 << 16},
		{"kept_output_bytes", c.KeptOutputBytes, 64 << 20},
		{"ended_processes", c.EndedProcesses, 1 << 16},
		{"ended_bytes", c.EndedBytes, 1 << 30},
	} {
		if n.value < 1 || n.value > n.most {
			return fmt.Errorf("%s is %d; it must be between 1 and %d", n.key, n.value, n.most)
		}
	}
	return c.validateCages()
}

// validateCages checks the keys that concern cages.
func (c Config) validateCages() error {
	// Root owns the kernel's files; the others are the ids that mean "unmapped" and "unchanged".
	if c.CageUID < 1 || c.CageUID >= 1<<31 {
		return fmt.Errorf("cage_uid is %d; it must be the id of a user that is not root", c.CageUID)
	}
	for _, p := range c.SystemPaths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return fmt.Errorf("system_paths has %q; each must be an absolute path below / without dots", p)
		}
		for _, own := range []string{"/proc", "/sys", "/dev", "/etc", "/tmp", "/run", "/home", "/root", "/var"} {
			if p == own {
				return fmt.Errorf("system_paths has %q, which says too much about the host; name what programs need of it", p)
			}
		}
	}
	if c.TmpBytes < 1<<20 || c.TmpBytes > 1<<40 {
		return fmt.Errorf("tmp_bytes is %d; it must be between 1 MiB and 1 TiB", c.TmpBytes)
	}
	if c.CageSpare < 0 || c.CageSpare.D() > 24*time.Hour {
		return fmt.Errorf("cage_spare is %s; it must be at most a day", c.CageSpare)
	}
	return nil
}
