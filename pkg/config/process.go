package config

// Database is the address of Postgres.
type Database struct {
	// URL connects as the owner of the schemas, for migrations.
	URL string `toml:"url"`
	// AppURL connects as the role of the services; empty means that they connect as the owner and switch to that role.
	AppURL string `toml:"app_url"`
}

// NATS is the address of NATS.
type NATS struct {
	// URL is its address; empty means the embedded one.
	URL string `toml:"url"`
	// CredentialsFile is a file with a JWT and a seed, as `nsc generate creds` writes it (KAGED_NATS_CREDENTIALS_FILE);
	// CAFile is the bundle of CAs for the server's certificate, by default the system's (KAGED_NATS_CA_FILE). Files here
	// are relative to the configuration file and read for each connection.
	CredentialsFile string `toml:"credentials_file"`
	CAFile          string `toml:"ca_file"`
	// CertFile and KeyFile are the client certificate for the server (KAGED_NATS_CERT_FILE, KAGED_NATS_KEY_FILE); the
	// files of [tls] may be used.
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
	// MaxStore and MaxMemory limit the disk and memory of the embedded server, in bytes; 1 GiB and 64 MiB by default.
	MaxStore  int64 `toml:"max_store"`
	MaxMemory int64 `toml:"max_memory"`
}

// Host are the settings of running services and of the connections between them. Zero means the default.
type Host struct {
	// DrainGrace is the time that a stopping service has to finish long work, 10 s by default. StopTimeout is the time for
	// its requests after that, 3 s by default.
	DrainGrace  Duration `toml:"drain_grace"`
	StopTimeout Duration `toml:"stop_timeout"`
	// ReadyTimeout is the time limit of a service's readiness check, 2 s by default.
	ReadyTimeout Duration `toml:"ready_timeout"`
	// Keepalive is the silence on a connection between services before a ping, 20 s by default and at least 10 s.
	// KeepaliveTimeout is the time to answer the ping before the connection is closed, 10 s by default.
	Keepalive        Duration `toml:"keepalive"`
	KeepaliveTimeout Duration `toml:"keepalive_timeout"`
	// ConnectionAge is the time for which a connection between hosts takes new calls, 5m by default; a new connection uses
	// the current certificates and addresses. CallTimeout limits a call between hosts that has no deadline, 5m by default.
	ConnectionAge Duration `toml:"connection_age"`
	CallTimeout   Duration `toml:"call_timeout"`
	// ServiceTokenFile is a file with the token, of 32 characters or more, that services in different containers show each
	// other (KAGED_SERVICE_TOKEN_FILE); relative to the configuration file. By default there is no token, and services
	// answer only processes in the same pid namespace.
	ServiceTokenFile string `toml:"service_token_file"`
	// MemoryLimit is the soft limit of a process's own memory in bytes, 256 MiB by default. Above it the garbage collector
	// runs more often. The limit is raised if more than four fifths of it are in use. GOMEMLIMIT in the environment
	// overrides it.
	MemoryLimit int64 `toml:"memory_limit"`
}

// TLS is the certificate of a process for connections between hosts: PEM files, relative to the configuration file,
// read again every 10 s if they changed. `kaged certs` creates them. A service that listens on TCP needs all three.
type TLS struct {
	// CAFile is the bundle of CAs for the certificates of other services (KAGED_TLS_CA_FILE).
	CAFile string `toml:"ca_file"`
	// CertFile is the certificate with the name of the service, such as harness.kaged (KAGED_TLS_CERT_FILE); KeyFile is
	// its private key (KAGED_TLS_KEY_FILE).
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
}

// Telemetry selects the traces and metrics of a process. The standard OTEL_ variables set the collector's address.
type Telemetry struct {
	// MetricsListen is the address where a process serves its metrics for Prometheus, under /metrics: "127.0.0.1:9464"
	// (KAGED_METRICS_LISTEN); off by default. A service in its own process uses metrics_listen of its own table first.
	MetricsListen string `toml:"metrics_listen"`
	// ProbeListen is the address of a process's probes for Kubernetes and the like: "0.0.0.0:9091" (KAGED_PROBE_LISTEN);
	// off by default. /startupz succeeds once each service has been ready, /livez while the process answers, /readyz while
	// each service is ready and not stopping. A service in its own process uses probe_listen of its own table first.
	ProbeListen string `toml:"probe_listen"`
	// Prompts puts prompts, answers, and inputs and results of tools into traces; false by default.
	Prompts bool `toml:"prompts"`
}

// Langfuse is a server that receives the traces of agents. Without both keys it gets no traces, without an error.
type Langfuse struct {
	// Enabled turns the export on.
	Enabled bool `toml:"enabled"`
	// BaseURL is the server's, https://cloud.langfuse.com by default.
	BaseURL string `toml:"base_url"`
	// PublicKeyEnv and SecretKeyEnv are the environment variables of the keys, KAGED_LANGFUSE_PUBLIC_KEY and
	// KAGED_LANGFUSE_SECRET_KEY by default.
	PublicKeyEnv string `toml:"public_key_env"`
	SecretKeyEnv string `toml:"secret_key_env"`
}
