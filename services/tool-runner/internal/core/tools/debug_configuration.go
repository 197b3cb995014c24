package tools

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/debugging"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// launchEntry has the fields of an entry of an editor's launch.json that kaged supports.
type launchEntry struct {
	Type      string            `json:"type"`
	Request   string            `json:"request"`
	Mode      string            `json:"mode"`
	Program   string            `json:"program"`
	Args      []string          `json:"args"`
	Cwd       string            `json:"cwd"`
	Env       map[string]string `json:"env"`
	Port      int               `json:"port"`
	ProcessID json.RawMessage   `json:"processId"`
	PID       json.RawMessage   `json:"pid"`
	Connect   struct {
		Port int `json:"port"`
	} `json:"connect"`
}

// launchRuntimes are the runtimes of an editor's types. Other types are names of runtimes.
var launchRuntimes = map[string]string{
	"debugpy": "python", "pwa-node": "node", "lldb": "cpp", "lldb-dap": "cpp", "cppdbg": "cpp",
}

// launchRefused are the keys of an entry that would run other programs than the debugged one, or another runtime, with
// the feature that kaged lacks.
var launchRefused = []struct{ key, why string }{
	{"preLaunchTask", "kaged runs no tasks: run its command first, and take the key out or name the program"},
	{"postDebugTask", "kaged runs no tasks"},
	{"runtimeExecutable", "kaged chooses the runtime by itself, or by dap.adapters"},
	{"runtimeArgs", "kaged starts the runtime by itself"},
	{"envFile", "kaged reads no files of variables: write them under env"},
	{"python", "kaged finds Python by itself: in .venv, venv and PATH"},
	{"pythonPath", "kaged finds Python by itself: in .venv, venv and PATH"},
}

// configuration returns the entry of the project's launch.json that a call names.
func (p *debugParams) configuration(call *tool.Call) (launchEntry, error) {
	var entry launchEntry
	list := call.From.Debugging.Configurations
	i := slices.IndexFunc(list, func(c dsl.DebugConfiguration) bool { return c.Name == p.Configuration })
	if i < 0 {
		names := []string{}
		for _, c := range list {
			names = append(names, c.Name)
		}
		return entry, p.refuse("is not approved; with dap.launch_json in the project file, those of %s are to be approved",
			dsl.LaunchFile).With("known", names)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(list[i].JSON), &keys); err != nil {
		return entry, p.refuse("is no object")
	}
	for _, r := range launchRefused {
		if _, ok := keys[r.key]; ok {
			return entry, p.refuse("has a %s; %s", r.key, r.why).With("key", r.key)
		}
	}
	text, err := p.filled(call, list[i].JSON)
	if err != nil {
		return entry, err
	}
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return entry, p.refuse("cannot be read: a value is of another type than expected")
	}
	return entry, nil
}

// launched returns the program that a configuration launches, with its arguments. It returns none for a configuration
// that makes the call fail.
func (p *debugParams) launched(call *tool.Call) []tool.Command {
	if p.Action != "launch" || p.Configuration == "" {
		return nil
	}
	entry, err := p.configuration(call)
	if err != nil {
		return nil
	}
	if p.Args != nil {
		entry.Args = p.Args
	}
	return []tool.Command{{Argv: append([]string{entry.Program}, entry.Args...), Env: p.variables(entry)}}
}

// variables returns the variables of the call and of the entry. Those of the call take precedence.
func (p *debugParams) variables(entry launchEntry) map[string]string {
	variables := maps.Clone(entry.Env)
	if variables == nil {
		variables = map[string]string{}
	}
	maps.Copy(variables, p.Env)
	return variables
}

// refuse returns the error of a configuration.
func (p *debugParams) refuse(format string, args ...any) *fault.Error {
	args = append([]any{p.Configuration}, args...)
	return fault.New(fault.InvalidParams, "The configuration %.80q "+format+".", args...).With("field", "configuration")
}

// filled returns a text of an entry with the variables replaced by their values.
func (p *debugParams) filled(call *tool.Call, text string) (string, error) {
	values := map[string]string{"${workspaceFolder}": call.Space.Root()}
	if script, ok := debugPath(call, "script"); ok {
		values["${file}"] = script.Abs()
	}
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		out.WriteString(before)
		if !ok {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		variable := "${" + name + "}"
		value, known := values[variable]
		switch {
		case known && closed:
		case variable == "${file}":
			return "", p.refuse("is about ${file}; name the file as script").With("key", variable)
		default:
			return "", p.refuse("asks for %.80s; kaged fills in ${workspaceFolder} and ${file} only", variable).
				With("key", variable)
		}
		literal, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		out.WriteString(string(literal[1 : len(literal)-1])) // inside a string of the entry
		text = after
	}
}

// configure sets the fields of a session from a configuration, and returns its variables. Parameters of the call take
// precedence.
func (p *debugParams) configure(call *tool.Call, s *debugging.Start) (map[string]string, error) {
	entry, err := p.configuration(call)
	if err != nil {
		return nil, err
	}
	return p.variables(entry), p.follow(call, entry, s)
}

// follow sets the fields of a session from an entry.
func (p *debugParams) follow(call *tool.Call, entry launchEntry, s *debugging.Start) error {
	if entry.Request != p.Action {
		return p.refuse("is one to %.20s; use that action", entry.Request)
	}
	s.Runtime, s.Mode = entry.Type, entry.Mode
	if name, ok := launchRuntimes[entry.Type]; ok {
		s.Runtime = name
	}
	if s.Mode == "auto" || s.Mode == "local" {
		s.Mode = ""
	}
	if p.Args == nil {
		s.Args = entry.Args
	}
	if entry.Cwd != "" && p.Cwd == "" {
		folder, err := p.entryPath(call, "cwd", entry.Cwd)
		if err != nil {
			return err
		}
		s.Dir = folder.Abs()
	}
	if s.Attach {
		return p.entryTarget(entry, s)
	}
	program, err := p.entryPath(call, "program", entry.Program)
	if err != nil {
		return err
	}
	s.Program, s.Folder = program.Abs(), program.Mode.IsDir()
	if s.Mode == "test" && entry.Cwd == "" && p.Cwd == "" {
		s.Dir = s.Program
		if !s.Folder {
			s.Dir = filepath.Dir(s.Program)
		}
	}
	return nil
}

// entryTarget sets the program to which a configuration attaches.
func (p *debugParams) entryTarget(entry launchEntry, s *debugging.Start) error {
	s.Port = max(entry.Port, entry.Connect.Port)
	for _, raw := range []json.RawMessage{entry.ProcessID, entry.PID} {
		text := strings.Trim(string(raw), `"`)
		if text != "" && json.Unmarshal([]byte(text), &s.ProcessID) != nil {
			return p.refuse("names no process")
		}
	}
	if s.Port <= 0 && s.ProcessID <= 0 || s.Port > 0xffff {
		return p.refuse("names neither a port nor a process")
	}
	return nil
}

// entryPath resolves a path of a configuration, which the agent must be allowed to read.
func (p *debugParams) entryPath(call *tool.Call, key, name string) (paths.Path, error) {
	if name == "" {
		return paths.Path{}, p.refuse("has no %s", key)
	}
	path, err := call.Space.Resolve("configuration", name)
	if err != nil {
		return paths.Path{}, err
	}
	if !call.Access.Allows(path.Abs(), false) {
		return paths.Path{}, p.refuse("is about %.200s, which the agent's cage does not show", path.Show)
	}
	if !path.Exists {
		return paths.Path{}, notThere(path)
	}
	return path, nil
}
