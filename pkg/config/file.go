package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
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

// UI holds the console's address and the operator's preferences.
type UI struct {
	// URL is the address of the gateway for browsers; empty means the listen address.
	URL string `toml:"url"`
	// Theme, Timezone and Locale are the preferences that GET /api/v1/me answers; dark, UTC and en-US by default.
	Theme    string `toml:"theme"`
	Timezone string `toml:"timezone"`
	Locale   string `toml:"locale"`
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
	var tables map[string]any
	if err := toml.Unmarshal(data, &tables); err != nil {
		return nil, syntaxFault(path, err)
	}
	if key := untimed(reflect.TypeFor[File](), tables); key != nil {
		return nil, f.wrong(data, key, noUnit)
	}
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

func (f *File) validate(data []byte) error {
	if err := f.validateProviders(data); err != nil {
		return err
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
	return f.validateLimits(data)
}

func (f *File) wrong(data []byte, key []string, reason string) error {
	line, col := position(data, key)
	return at(f.Path, line, col, strings.Join(key, ".")+": "+reason)
}
