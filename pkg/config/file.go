package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/fault"
)

// MaxFile is the maximum size of local.toml in bytes.
const MaxFile = 1 << 20

// File is a parsed local.toml.
type File struct {
	// Path is the path of the file.
	Path string `toml:"-"`
	// Models maps aliases to targets, "provider:model", in the order of attempts.
	Models map[string]Targets `toml:"-"`
	// Providers are the model providers by name.
	Providers map[string]Provider `toml:"providers"`
	// DefaultTools are the operator's rules for tools, in the order of the file.
	DefaultTools []catalogue.Switch `toml:"-"`
	// Projects are the settings for registering projects.
	Projects Projects `toml:"projects"`
	// Limits limits work on this daemon.
	Limits Limits `toml:"limits"`
	// Budget limits the operator's use of models in a period.
	Budget Budget `toml:"budget"`
	// UI holds the console's address and the operator's preferences.
	UI UI `toml:"ui"`
	// OperatorName is the display name of the operator.
	OperatorName string `toml:"operator_name"`
	// Database is the address of Postgres; empty means the embedded one.
	Database Database `toml:"database"`
	// NATS is the address of NATS; empty means the embedded one.
	NATS NATS `toml:"nats"`
	// Host are the settings of running services and of the connections between them.
	Host Host `toml:"host"`
	// TLS is the certificate of a process for connections between hosts.
	TLS TLS `toml:"tls"`
	// System is a deployment shared by several operators, Workspaces are its workspaces.
	System     System      `toml:"system"`
	Workspaces []Workspace `toml:"workspaces"`
	// LSP lists the language servers.
	LSP LSP `toml:"lsp"`
	// DAP lists the debug adapters.
	DAP DAP `toml:"dap"`
	// Telemetry selects the traces and metrics of a process. Langfuse is a server that receives the traces of agents.
	Telemetry Telemetry `toml:"telemetry"`
	Langfuse  Langfuse  `toml:"langfuse"`
	// Services are the services' own tables, decoded by [Decode].
	Services map[string]map[string]any `toml:"services"`
}

// document is a File as the TOML decoder fills it: tables that need their form or order are separate.
type document struct {
	File
	Models       map[string]any      `toml:"models"`
	DefaultTools map[string]toolRule `toml:"default_tools"`
}

// Targets are "provider:model" pairs. In the file a single target may be written without a list.
type Targets []string

// Provider is a model provider.
type Provider struct {
	// Driver is the wire format: anthropic, openai, openai-chat, google or rehearsal. Empty means the provider's name, if
	// that is a driver.
	Driver string `toml:"driver"`
	// APIKey is "${VAR}" for a key in the environment, or the key itself, which works with a warning.
	APIKey string `toml:"api_key"`
	// BaseURL replaces the driver's own address: without a version path for anthropic and google, with /v1 for the
	// OpenAI kinds.
	BaseURL string `toml:"base_url"`
	// Headers are sent with every request.
	Headers map[string]string `toml:"headers"`
	// Script is the rehearsal driver's script: a path, relative to the configuration file.
	Script string `toml:"script"`
	// Models are facts about models that add to or override the built-in catalogue.
	Models []Model `toml:"models"`
}

// Model holds the operator's facts of one model of a provider. Each given value overrides the catalogue.
type Model struct {
	// ID is the model's id at the provider, as in provider:model.
	ID string `toml:"id"`
	// Name is a display name: settings and kaged doctor show it beside the id.
	Name string `toml:"name"`
	// ContextWindow is the context window in tokens.
	ContextWindow int `toml:"context_window"`
	// MaxOutput is the maximum answer in tokens.
	MaxOutput int `toml:"max_output"`
	// Price is in US dollars per million tokens.
	Price *ModelPrice `toml:"price"`
}

// ModelPrice is a price in US dollars per million tokens.
type ModelPrice struct {
	// Input is the price of uncached input.
	Input float64 `toml:"input"`
	// Output is the price of output.
	Output float64 `toml:"output"`
	// CacheRead is the price of input read from the provider's cache.
	CacheRead float64 `toml:"cache_read"`
	// CacheWrite is the price of input written to the provider's cache.
	CacheWrite float64 `toml:"cache_write"`
}

// Drivers are the wire formats a provider may speak.
var Drivers = []string{"anthropic", "openai", "openai-chat", "google", "rehearsal"}

type toolRule struct {
	Enabled bool `toml:"enabled"`
}

// Values of [Projects.FirstLoad].
const (
	FirstLoadApproves = "approve"
	FirstLoadAsks     = "ask"
)

// Projects are the settings for registering projects.
type Projects struct {
	// FirstLoad is the policy for a project's first load: approve, the default, or ask: an operator approves the
	// project (`kaged project approve`) before any of it runs.
	FirstLoad string `toml:"first_load"`
}

// MaxSteps is the highest step limit of a run, in model calls.
const MaxSteps = 100

// Limits limits work on this daemon. Zero means an absent key, which has the default.
type Limits struct {
	// SessionsPerProject is the maximum number of running sessions of one project; 4 by default.
	SessionsPerProject int `toml:"sessions_per_project"`
	// SessionsPerOperator is the maximum number of running sessions of one operator; 16 by default.
	SessionsPerOperator int `toml:"sessions_per_operator"`
	// MaxSteps is the maximum number of model calls in a run, for projects without their own limit; 20 by default.
	MaxSteps int `toml:"max_steps"`
	// LiveAgents is the maximum number of agents of one session that work at the same time, the root agent included. If
	// unset, the key live_agents of [services.harness] applies, which is 16 by default.
	LiveAgents int `toml:"live_agents"`
	// RequestsPerMinute is the maximum number of requests of an operator per minute at all gateways together, without the
	// requests that have their own limit; 600 by default.
	RequestsPerMinute int `toml:"requests_per_minute"`
	// MessagesPerMinute is the maximum number of messages that an operator may post per minute; 30 by default.
	MessagesPerMinute int `toml:"messages_per_minute"`
	// ValidationsPerMinute is the maximum number of project files that an operator may validate per minute; 120 by
	// default.
	ValidationsPerMinute int `toml:"validations_per_minute"`
	// DSLWritesPerMinute is the maximum number of project files that an operator may write over the API per minute; 10 by
	// default.
	DSLWritesPerMinute int `toml:"dsl_writes_per_minute"`
	// AuditReadsPerMinute is the maximum number of pages of the audit record that an operator may read per minute; 30 by
	// default.
	AuditReadsPerMinute int `toml:"audit_reads_per_minute"`
}

// MaxPerMinute is the highest value of a rate limit.
const MaxPerMinute = 1_000_000

// MaxLiveAgents is the highest value of live_agents.
const MaxLiveAgents = 1000

// The periods of [Budget.Per]. Each begins at midnight UTC, a week on Monday.
const (
	PerDay   = "day"
	PerWeek  = "week"
	PerMonth = "month"
)

// UnpricedAllow is the value of [Budget.Unpriced] other than the default, refuse.
const UnpricedAllow = "allow"

// Budget limits the operator's use of models in a period, over all sessions. Zero means no limit.
type Budget struct {
	// USD is the limit in US dollars.
	USD float64 `toml:"usd"`
	// Tokens is the limit of input, cached or not, and output together.
	Tokens int64 `toml:"tokens"`
	// Calls is the limit of requests to models.
	Calls int64 `toml:"calls"`
	// Per is the period, in UTC: day, the default, week or month.
	Per string `toml:"per"`
	// Unpriced is the policy under usd for a model without a known price: refuse, the default, or allow, which
	// counts it as free.
	Unpriced string `toml:"unpriced"`
}

// UI holds the console's address and the operator's preferences.
type UI struct {
	// URL is the address of the gateway for browsers; empty means the listen address.
	URL string `toml:"url"`
	// Theme, Timezone and Locale are the preferences that GET /api/v1/me answers; dark, UTC and en-US by default.
	Theme    string `toml:"theme"`
	Timezone string `toml:"timezone"`
	Locale   string `toml:"locale"`
}

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

// LSP lists the language servers.
type LSP struct {
	// Servers are the operator's language servers, by language.
	Servers map[string]LSPServer `toml:"servers"`
}

// LSPServer is the table [lsp.servers.LANG]: the language server of a language, instead of kaged's default.
type LSPServer struct {
	// Command is the program and its arguments; an empty list means kaged's default.
	Command []string `toml:"command"`
	// Extensions are the extensions of the language's files, such as ".zig"; an empty list means kaged's default.
	Extensions []string `toml:"extensions"`
	// Settings are sent to the server as its configuration and as its start options, instead of kaged's default.
	Settings map[string]any `toml:"settings"`
	// Env are additional environment variables of the server.
	Env map[string]string `toml:"env"`
	// Read are paths outside the project that the server may read in its cage, such as a folder of modules.
	Read []string `toml:"read"`
	// Memory limits the memory of the server's cage in bytes, 4 GiB by default.
	Memory int64 `toml:"memory"`
}

// DAP lists the debug adapters.
type DAP struct {
	// Adapters are the operator's debug adapters, by runtime.
	Adapters map[string]DAPAdapter `toml:"adapters"`
}

// DAPAdapter is the table [dap.adapters.RUNTIME]: the debug adapter of a runtime, instead of kaged's default.
type DAPAdapter struct {
	// Command is the program and its arguments.
	Command []string `toml:"command"`
	// Announces is the text that the adapter prints before its listen address, such as "listening at "; empty for an
	// adapter that speaks over its standard input and output.
	Announces string `toml:"announces"`
	// Type is the value of type in the adapter's requests, such as "pwa-node"; the runtime's name by default.
	Type string `toml:"type"`
	// Traces is true if the adapter traces processes, for which a cage needs seccomp: relaxed. The default is true, except
	// for runtimes that kaged knows to debug without tracing.
	Traces *bool `toml:"traces"`
	// Launch and Attach are additional arguments of the requests that begin a debug session.
	Launch map[string]any `toml:"launch"`
	Attach map[string]any `toml:"attach"`
}

// Load parses the file at path; a missing file counts as empty. It fails with bad_request, whose details hold path, and
// line and column if they are known.
func Load(path string) (*File, error) {
	f := &File{Path: path}
	if path == "" {
		return f, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, fault.Wrap(err, fault.BadRequest, "The configuration %s cannot be read.", path)
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.BadRequest, "The configuration %s is not a regular file.", path)
	case info.Size() > MaxFile:
		return nil, fault.New(fault.BadRequest, "The configuration %s is larger than %d bytes.", path, MaxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The configuration %s cannot be read.", path)
	}
	return Parse(path, data)
}

// Parse parses data as the file at path. It fails as [Load] does.
func Parse(path string, data []byte) (*File, error) {
	var doc document
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return nil, syntaxFault(path, err)
	}
	f := &doc.File
	f.Path = path
	f.DefaultTools = orderedTools(data, doc.DefaultTools)
	if err := f.readModels(data, doc.Models); err != nil {
		return nil, err
	}
	if err := f.validate(data); err != nil {
		return nil, err
	}
	return f, nil
}

func syntaxFault(path string, err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		row, col := first.Position()
		return at(path, row, col, fmt.Sprintf("unknown key %q", strings.Join(first.Key(), ".")))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		row, col := bad.Position()
		reason := plain(bad)
		if key := strings.Join(bad.Key(), "."); key != "" {
			reason = key + ": " + reason
		}
		return at(path, row, col, reason)
	}
	return fault.Wrap(err, fault.BadRequest, "%s: %s", path, strings.TrimPrefix(err.Error(), "toml: "))
}

// mistyped matches the decoder's message about a value of the wrong type, which names Go types.
var mistyped = regexp.MustCompile(`^toml: cannot decode TOML (.*) into .* of type (\S+)$`)

// plain rewrites a decoder's message for the author of the file.
func plain(err error) string {
	m := mistyped.FindStringSubmatch(err.Error())
	if m == nil {
		return strings.TrimPrefix(err.Error(), "toml: ")
	}
	want := "a table"
	switch kind := strings.TrimLeft(m[2], "*"); {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		want = "a whole number"
	case strings.HasPrefix(kind, "float"):
		want = "a number"
	case kind == "bool":
		want = "true or false"
	case kind == "string":
		want = "a text in quotes"
	case strings.HasPrefix(kind, "[]"):
		want = "a list"
	}
	return fmt.Sprintf("want %s, not a TOML %s", want, m[1])
}

func at(path string, line, column int, reason string) *fault.Error {
	return fault.New(fault.BadRequest, "%s:%d:%d: %s", path, line, column, reason).
		With("path", path).With("line", line).With("column", column).With("reason", reason)
}

// targetForm is the form provider:model, with the first colon as separator.
var targetForm = regexp.MustCompile(`^[^:\s]+:\S+$`)

// readModels parses the value of each alias: one target, or a list of them.
func (f *File) readModels(data []byte, models map[string]any) error {
	f.Models = make(map[string]Targets, len(models))
	for alias, value := range models {
		var targets Targets
		switch v := value.(type) {
		case string:
			targets = Targets{v}
		case []any:
			for _, item := range v {
				t, ok := item.(string)
				if !ok {
					return f.wrong(data, []string{"models", alias}, "a list of targets holds strings only")
				}
				targets = append(targets, t)
			}
		default:
			return f.wrong(data, []string{"models", alias}, `a target is "provider:model", or a list of them`)
		}
		if len(targets) == 0 {
			return f.wrong(data, []string{"models", alias}, "an alias needs at least one target")
		}
		for _, t := range targets {
			if !targetForm.MatchString(t) {
				return f.wrong(data, []string{"models", alias}, fmt.Sprintf("%q is not of the form provider:model", t))
			}
		}
		f.Models[alias] = targets
	}
	return nil
}

// driverWanted describes the allowed drivers of a provider; its name is the default.
func driverWanted(said, driver string) string {
	hint := ""
	if said == "" {
		hint = "; set driver to one, or name the provider like it"
	}
	return fmt.Sprintf("driver %q is not one of %s%s", driver, strings.Join(Drivers, ", "), hint)
}

func (f *File) validate(data []byte) error {
	for name, p := range f.Providers {
		if strings.Contains(name, ":") {
			return f.wrong(data, []string{"providers", name}, "a provider's name cannot hold a colon")
		}
		if d := p.DriverOf(name); !slices.Contains(Drivers, d) {
			return f.wrong(data, []string{"providers", name}, driverWanted(p.Driver, d))
		}
		if wrong := wrongModel(p.Models); wrong != "" {
			return f.wrong(data, []string{"providers", name, "models"}, wrong)
		}
	}
	if v := f.Projects.FirstLoad; v != "" && v != FirstLoadApproves && v != FirstLoadAsks {
		return f.wrong(data, []string{"projects", "first_load"},
			fmt.Sprintf("%q is neither %s nor %s", v, FirstLoadApproves, FirstLoadAsks))
	}
	if err := f.validateBudget(data); err != nil {
		return err
	}
	if err := f.validateSystem(data); err != nil {
		return err
	}
	for _, e := range entries(data) {
		if len(e.path) != 2 || e.path[0] != "limits" {
			continue
		}
		v := map[string]int{
			"sessions_per_project": f.Limits.SessionsPerProject, "sessions_per_operator": f.Limits.SessionsPerOperator,
			"max_steps":   f.Limits.MaxSteps,
			"live_agents": f.Limits.LiveAgents, "requests_per_minute": f.Limits.RequestsPerMinute,
			"messages_per_minute": f.Limits.MessagesPerMinute, "validations_per_minute": f.Limits.ValidationsPerMinute,
			"dsl_writes_per_minute": f.Limits.DSLWritesPerMinute, "audit_reads_per_minute": f.Limits.AuditReadsPerMinute,
		}[e.path[1]]
		if v < 1 {
			return f.wrong(data, e.path, "a limit is at least 1")
		}
	}
	for name, v := range map[string]int{
		"requests_per_minute": f.Limits.RequestsPerMinute, "messages_per_minute": f.Limits.MessagesPerMinute,
		"validations_per_minute": f.Limits.ValidationsPerMinute, "dsl_writes_per_minute": f.Limits.DSLWritesPerMinute,
		"audit_reads_per_minute": f.Limits.AuditReadsPerMinute,
	} {
		if v > MaxPerMinute {
			return f.wrong(data, []string{"limits", name}, fmt.Sprintf("a rate limit is at most %d", MaxPerMinute))
		}
	}
	if f.Limits.MaxSteps > MaxSteps {
		return f.wrong(data, []string{"limits", "max_steps"}, fmt.Sprintf("a run has at most %d steps", MaxSteps))
	}
	if f.Limits.LiveAgents > MaxLiveAgents {
		return f.wrong(data, []string{"limits", "live_agents"},
			fmt.Sprintf("a session has at most %d agents at work", MaxLiveAgents))
	}
	return nil
}

// maxModelTokens limits the window and the answers of a model, maxModelPrice its prices.
const (
	maxModelTokens = 100_000_000
	maxModelPrice  = 1_000_000
)

// wrongModel returns the error in a list of models, "" for a valid list.
func wrongModel(list []Model) string {
	seen := map[string]bool{}
	for _, m := range list {
		switch {
		case m.ID == "":
			return "a model has an id, as in provider:model"
		case seen[m.ID]:
			return fmt.Sprintf("the model %q stands twice", m.ID)
		case m.ContextWindow < 0 || m.ContextWindow > maxModelTokens:
			return fmt.Sprintf("context_window of %q is from 1 to %d tokens", m.ID, maxModelTokens)
		case m.MaxOutput < 0 || m.MaxOutput > maxModelTokens:
			return fmt.Sprintf("max_output of %q is from 1 to %d tokens", m.ID, maxModelTokens)
		}
		seen[m.ID] = true
		if p := m.Price; p != nil {
			for _, usd := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
				if !(usd >= 0 && usd <= maxModelPrice) {
					return fmt.Sprintf("a price of %q is from 0 to %d US dollars for a million tokens", m.ID, maxModelPrice)
				}
			}
		}
	}
	return ""
}

// maxBudgetUSD and maxBudgetCount limit budgets.
const (
	maxBudgetUSD   = 1_000_000
	maxBudgetCount = 1_000_000_000_000
)

func (f *File) validateBudget(data []byte) error {
	b := f.Budget
	if p := b.Per; p != "" && p != PerDay && p != PerWeek && p != PerMonth {
		return f.wrong(data, []string{"budget", "per"},
			fmt.Sprintf("%q is not one of %s, %s, %s", p, PerDay, PerWeek, PerMonth))
	}
	if u := b.Unpriced; u != "" && u != "refuse" && u != UnpricedAllow {
		return f.wrong(data, []string{"budget", "unpriced"}, fmt.Sprintf("%q is neither refuse nor %s", u, UnpricedAllow))
	}
	for _, e := range entries(data) {
		if len(e.path) != 2 || e.path[0] != "budget" {
			continue
		}
		switch key := e.path[1]; {
		case key == "usd" && (b.USD < 0.000001 || b.USD > maxBudgetUSD):
			return f.wrong(data, e.path, fmt.Sprintf("a budget is from 0.000001 to %d US dollars", maxBudgetUSD))
		case key == "tokens" && (b.Tokens < 1 || b.Tokens > maxBudgetCount),
			key == "calls" && (b.Calls < 1 || b.Calls > maxBudgetCount):
			return f.wrong(data, e.path, fmt.Sprintf("a budget is from 1 to %d", maxBudgetCount))
		}
	}
	return nil
}

func (f *File) wrong(data []byte, key []string, reason string) error {
	line, col := position(data, key)
	return at(f.Path, line, col, strings.Join(key, ".")+": "+reason)
}

// DriverOf returns the driver of the provider with the given name.
func (p Provider) DriverOf(name string) string {
	if p.Driver != "" {
		return p.Driver
	}
	return name
}

// SplitTarget splits "provider:model" at the first colon.
func SplitTarget(target string) (provider, model string, ok bool) {
	provider, model, ok = strings.Cut(target, ":")
	return provider, model, ok && provider != "" && model != ""
}
