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

// MaxFile is the largest local.toml in bytes.
const MaxFile = 1 << 20

// File is a parsed local.toml.
type File struct {
	// Path is where it was read from.
	Path string `toml:"-"`
	// Models binds aliases to targets, "provider:model", in the order they are tried.
	Models map[string]Targets `toml:"-"`
	// Providers are the model providers by name.
	Providers map[string]Provider `toml:"providers"`
	// DefaultTools are the operator's rules for tools, in the order of the file.
	DefaultTools []catalogue.Switch `toml:"-"`
	// Projects is how projects are registered.
	Projects Projects `toml:"projects"`
	// Limits bounds work on this daemon.
	Limits Limits `toml:"limits"`
	// Budget bounds the operator's use of models in a period.
	Budget Budget `toml:"budget"`
	// UI holds the console's address and the operator's preferences.
	UI UI `toml:"ui"`
	// OperatorName is the name to show for the operator.
	OperatorName string `toml:"operator_name"`
	// Database says where Postgres is; empty means the embedded one.
	Database Database `toml:"database"`
	// NATS says where NATS is; empty means the embedded one.
	NATS NATS `toml:"nats"`
	// Host is how services are run and how they speak to each other.
	Host Host `toml:"host"`
	// TLS is the identity of a process between hosts.
	TLS TLS `toml:"tls"`
	// System is a deployment that several operators share, Workspaces are its workspaces.
	System     System      `toml:"system"`
	Workspaces []Workspace `toml:"workspaces"`
	// LSP is which language servers there are.
	LSP LSP `toml:"lsp"`
	// DAP is which debug adapters there are.
	DAP DAP `toml:"dap"`
	// Telemetry is which traces and metrics a process offers, Langfuse a server that gets the traces of agents.
	Telemetry Telemetry `toml:"telemetry"`
	Langfuse  Langfuse  `toml:"langfuse"`
	// Services are the services' own tables, decoded by [Decode].
	Services map[string]map[string]any `toml:"services"`
}

// document is a File as the TOML decoder fills it: tables that are read by form or order are split off.
type document struct {
	File
	Models       map[string]any      `toml:"models"`
	DefaultTools map[string]toolRule `toml:"default_tools"`
}

// Targets are "provider:model" pairs. In the file one may stand alone, without a list.
type Targets []string

// Provider is a model provider.
type Provider struct {
	// Driver is the wire format: anthropic, openai, openai-chat, google or
	// rehearsal. Empty means the provider's name, where that is a driver's.
	Driver string `toml:"driver"`
	// APIKey is "${VAR}", where the key is in the environment, or the key itself, which works and is warned of.
	APIKey string `toml:"api_key"`
	// BaseURL replaces the driver's own address: without a version path for anthropic and google, with /v1 for the
	// OpenAI kinds.
	BaseURL string `toml:"base_url"`
	// Headers are sent with every request.
	Headers map[string]string `toml:"headers"`
	// Script is the rehearsal driver's script: a path, relative to the configuration file.
	Script string `toml:"script"`
	// Models say more of models than the built-in catalogue, or other things.
	Models []Model `toml:"models"`
}

// Model holds the operator's facts of one model of a provider. Each value that is given wins over the catalogue.
type Model struct {
	// ID is the model's id at the provider, as in provider:model.
	ID string `toml:"id"`
	// Name is a name for people: settings and kaged doctor show it beside the id.
	Name string `toml:"name"`
	// ContextWindow is the window in tokens.
	ContextWindow int `toml:"context_window"`
	// MaxOutput is the longest answer in tokens.
	MaxOutput int `toml:"max_output"`
	// Price is in US dollars for a million tokens.
	Price *ModelPrice `toml:"price"`
}

// ModelPrice is US dollars for a million tokens.
type ModelPrice struct {
	// Input is for fresh input.
	Input float64 `toml:"input"`
	// Output is for output.
	Output float64 `toml:"output"`
	// CacheRead is for input read from the provider's cache.
	CacheRead float64 `toml:"cache_read"`
	// CacheWrite is for input written to it.
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

// Projects is how projects are registered.
type Projects struct {
	// FirstLoad is the policy for a project's first load: approve, the default, or ask: an operator approves the
	// project (`kaged project approve`) before any of it runs.
	FirstLoad string `toml:"first_load"`
}

// MaxSteps is the most model calls a run may be allowed.
const MaxSteps = 100

// Limits bounds work on this daemon. Zero is an absent key, and stands for the default.
type Limits struct {
	// SessionsPerProject is how many sessions of one project may run at once; 4 by default.
	SessionsPerProject int `toml:"sessions_per_project"`
	// SessionsPerOperator is how many sessions of one operator may run at once; 16 by default.
	SessionsPerOperator int `toml:"sessions_per_operator"`
	// MaxSteps is the most model calls of a run in a project without its own limit; 20 by default.
	MaxSteps int `toml:"max_steps"`
	// LiveAgents is how many agents of one session may be at work at once, the root agent included. Without it the key
	// live_agents of [services.harness] counts, which is 16 by default.
	LiveAgents int `toml:"live_agents"`
	// RequestsPerMinute is how many requests of an operator all gateways together take a minute, but for those with a
	// limit of their own; 600 by default.
	RequestsPerMinute int `toml:"requests_per_minute"`
	// MessagesPerMinute is how many messages an operator may post a minute; 30 by default.
	MessagesPerMinute int `toml:"messages_per_minute"`
	// ValidationsPerMinute is how many project files an operator may have validated a minute; 120 by default.
	ValidationsPerMinute int `toml:"validations_per_minute"`
	// DSLWritesPerMinute is how many project files an operator may write over the API a minute; 10 by default.
	DSLWritesPerMinute int `toml:"dsl_writes_per_minute"`
	// AuditReadsPerMinute is how many pages of the audit record an operator may read a minute; 30 by default.
	AuditReadsPerMinute int `toml:"audit_reads_per_minute"`
}

// MaxPerMinute is the highest rate limit.
const MaxPerMinute = 1_000_000

// MaxLiveAgents is the most agents that a session may be allowed at once.
const MaxLiveAgents = 1000

// The periods of [Budget.Per]. They begin at midnight UTC, a week on Monday.
const (
	PerDay   = "day"
	PerWeek  = "week"
	PerMonth = "month"
)

// UnpricedAllow is the value of [Budget.Unpriced] other than the default, refuse.
const UnpricedAllow = "allow"

// Budget bounds the operator's use of models in a period, over all sessions. Zero means no bound.
type Budget struct {
	// USD is US dollars.
	USD float64 `toml:"usd"`
	// Tokens is input, cached or not, with output.
	Tokens int64 `toml:"tokens"`
	// Calls is requests to models.
	Calls int64 `toml:"calls"`
	// Per is the period, in UTC: day, the default, week or month.
	Per string `toml:"per"`
	// Unpriced is the policy under usd for a model without a known price: refuse, the default, or allow, which
	// counts it as free.
	Unpriced string `toml:"unpriced"`
}

// UI holds the console's address and the operator's preferences.
type UI struct {
	// URL is the address people see the gateway under; empty means the one it listens on.
	URL string `toml:"url"`
	// Theme, Timezone and Locale are the preferences that GET /api/v1/me answers; dark, UTC and en-US by default.
	Theme    string `toml:"theme"`
	Timezone string `toml:"timezone"`
	Locale   string `toml:"locale"`
}

// Database says where Postgres is.
type Database struct {
	// URL connects as the owner of the schemas, for migrations.
	URL string `toml:"url"`
	// AppURL connects as the role the services work as; empty means that they connect as the owner and step down.
	AppURL string `toml:"app_url"`
}

// NATS says where NATS is.
type NATS struct {
	// URL is its address; empty means the embedded one.
	URL string `toml:"url"`
	// CredentialsFile is a file with a JWT and a seed, as `nsc generate creds` writes it (KAGED_NATS_CREDENTIALS_FILE);
	// CAFile the bundle of CAs that the server's certificate is checked against, the system's by default
	// (KAGED_NATS_CA_FILE). Files here are relative to the configuration file and read for each connection.
	CredentialsFile string `toml:"credentials_file"`
	CAFile          string `toml:"ca_file"`
	// CertFile and KeyFile are the certificate that the server knows the service by (KAGED_NATS_CERT_FILE,
	// KAGED_NATS_KEY_FILE); those of [tls] will do.
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
	// MaxStore and MaxMemory bound the disk and memory of the embedded server, in bytes; 1 GiB and 64 MiB by
	// default.
	MaxStore  int64 `toml:"max_store"`
	MaxMemory int64 `toml:"max_memory"`
}

// Host is how services are run and how they speak to each other. Zero means the default.
type Host struct {
	// DrainGrace is the time a stopping service may take to finish long work, 10 s by default; StopTimeout the time
	// for its requests after that, 3 s by default.
	DrainGrace  Duration `toml:"drain_grace"`
	StopTimeout Duration `toml:"stop_timeout"`
	// ReadyTimeout is how long a service may take to say whether it works, 2 s by default.
	ReadyTimeout Duration `toml:"ready_timeout"`
	// Keepalive is how long a connection between services may be silent before the other end is asked whether it is there,
	// 20 s by default and at least 10 s; KeepaliveTimeout how long that may take to answer before the connection is given
	// up, 10 s by default.
	Keepalive        Duration `toml:"keepalive"`
	KeepaliveTimeout Duration `toml:"keepalive_timeout"`
	// ConnectionAge is how long a connection between hosts is used for new calls, 5m by default; a new one has the
	// certificates and addresses of its time. CallTimeout bounds a call between hosts without an end of its own, 5m by
	// default.
	ConnectionAge Duration `toml:"connection_age"`
	CallTimeout   Duration `toml:"call_timeout"`
	// ServiceTokenFile is a file with the token, of 32 characters or more, that services in different containers
	// show each other (KAGED_SERVICE_TOKEN_FILE); relative to the configuration file. By default there is no token:
	// services answer only processes they can see.
	ServiceTokenFile string `toml:"service_token_file"`
	// MemoryLimit is the soft limit of a process's own memory in bytes, 256 MiB by default: above it, memory is
	// collected more often. It gives way where more than four fifths of it are in use, and to GOMEMLIMIT in the
	// environment.
	MemoryLimit int64 `toml:"memory_limit"`
}

// TLS is the identity of a process between hosts: files in PEM, relative to the configuration file, which are looked at
// every 10 s. Make them with `kaged certs`. A service that listens on TCP needs all three.
type TLS struct {
	// CAFile is the bundle of CAs that the certificates of other services are checked against (KAGED_TLS_CA_FILE).
	CAFile string `toml:"ca_file"`
	// CertFile is the certificate with the name of the service, such as harness.kaged (KAGED_TLS_CERT_FILE); KeyFile is
	// its private key (KAGED_TLS_KEY_FILE).
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
}

// Telemetry is which traces and metrics a process offers. Where a collector is, the standard OTEL_ variables say.
type Telemetry struct {
	// MetricsListen is the address at which Prometheus finds the metrics of a process, under /metrics: "127.0.0.1:9464"
	// (KAGED_METRICS_LISTEN); off by default. A service in a process of its own takes metrics_listen of its own table
	// first.
	MetricsListen string `toml:"metrics_listen"`
	// ProbeListen is the address of a process's probes for Kubernetes and the like: "0.0.0.0:9091" (KAGED_PROBE_LISTEN);
	// off by default. /startupz says that each service has been ready once, /livez that the process answers, /readyz that
	// each service is ready and does not stop. A service in a process of its own takes probe_listen of its own table
	// first.
	ProbeListen string `toml:"probe_listen"`
	// Prompts puts prompts, answers, and inputs and results of tools into traces; false by default.
	Prompts bool `toml:"prompts"`
}

// Langfuse is a server that gets the traces of agents. Without both keys it gets no trace, and that is no error.
type Langfuse struct {
	// Enabled turns it on.
	Enabled bool `toml:"enabled"`
	// BaseURL is the server's, https://cloud.langfuse.com by default.
	BaseURL string `toml:"base_url"`
	// PublicKeyEnv and SecretKeyEnv name the variables of the keys, KAGED_LANGFUSE_PUBLIC_KEY and
	// KAGED_LANGFUSE_SECRET_KEY by default.
	PublicKeyEnv string `toml:"public_key_env"`
	SecretKeyEnv string `toml:"secret_key_env"`
}

// LSP is which language servers there are.
type LSP struct {
	// Servers are the operator's language servers, by language.
	Servers map[string]LSPServer `toml:"servers"`
}

// LSPServer is the table [lsp.servers.LANG]: the language server of a language, in place of kaged's own.
type LSPServer struct {
	// Command is the program and its arguments; kaged's own for an empty list.
	Command []string `toml:"command"`
	// Extensions are those of its files, such as ".zig"; kaged's own for an empty list.
	Extensions []string `toml:"extensions"`
	// Settings are sent to the server as its configuration and as options of its start, in place of kaged's own.
	Settings map[string]any `toml:"settings"`
	// Env are variables that the server gets besides the usual ones.
	Env map[string]string `toml:"env"`
	// Read are paths outside the project that the server may read in its cage, such as a folder of modules.
	Read []string `toml:"read"`
	// Memory bounds the server's cage in bytes, 4 GiB by default.
	Memory int64 `toml:"memory"`
}

// DAP is which debug adapters there are.
type DAP struct {
	// Adapters are the operator's debug adapters, by runtime.
	Adapters map[string]DAPAdapter `toml:"adapters"`
}

// DAPAdapter is the table [dap.adapters.RUNTIME]: the debug adapter of a runtime, in place of kaged's own.
type DAPAdapter struct {
	// Command is the program and its arguments.
	Command []string `toml:"command"`
	// Announces is the text that the adapter prints before the address it listens at, such as "listening at "; empty
	// for one that speaks over its standard input and output.
	Announces string `toml:"announces"`
	// Type is the type that the adapter wants to be told, such as "pwa-node"; the runtime's name by default.
	Type string `toml:"type"`
	// Traces says whether the adapter traces processes, for which a cage needs seccomp: relaxed; true by default,
	// except for the runtimes that kaged knows not to be traced.
	Traces *bool `toml:"traces"`
	// Launch and Attach are further arguments of the requests that begin a debug session.
	Launch map[string]any `toml:"launch"`
	Attach map[string]any `toml:"attach"`
}

// Load reads the file at path; an absent file is an empty one. It fails with bad_request, whose details hold path, line
// and column where the place is known.
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

// Parse reads data as the file at path. It fails like [Load].
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

// targetForm is provider:model, split at the first colon.
var targetForm = regexp.MustCompile(`^[^:\s]+:\S+$`)

// readModels takes each alias's value apart: one target, or a list of them.
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

// maxModelTokens bounds the window and the answers of a model, maxModelPrice its prices.
const (
	maxModelTokens = 100_000_000
	maxModelPrice  = 1_000_000
)

// wrongModel returns the fault in a list of models, "" for a valid one.
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

// maxBudgetUSD and maxBudgetCount bound budgets.
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

// DriverOf returns the driver of the provider called name.
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
