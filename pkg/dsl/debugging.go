package dsl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/jsonc"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// LaunchFile holds an editor's debug configurations. It is read if dap.launch_json is true.
const LaunchFile = ".vscode/launch.json"

// The limits of [LaunchFile].
const (
	maxConfigurations  = 64
	configurationBytes = 8 << 10
)

// Debugging are the project's settings for debugging its programs.
type Debugging struct {
	// Adapters are the debug adapters by runtime.
	Adapters []DebugAdapter
	// Configurations are the entries of [LaunchFile], in their order.
	Configurations []DebugConfiguration
}

// DebugAdapter is a debug adapter that a project declares.
type DebugAdapter struct {
	Runtime string
	// Command is the program and its arguments.
	Command []string
	// Announces is the text that it prints before its listen address, "" for an adapter that speaks over its standard
	// input and output. Type is the value of type in its requests, "" for the runtime's name.
	Announces, Type string
}

// DebugConfiguration is an entry of [LaunchFile]. JSON is its text.
type DebugConfiguration struct{ Name, JSON string }

//convert:both .Proto DebugAdapterFromProto DebugAdapter *commonv1.DebugAdapter
//convert:one DebugAdaptersFromProto []*commonv1.DebugAdapter []DebugAdapter
//convert:both configurationProto configurationFromProto DebugConfiguration *commonv1.DebugConfiguration
//convert:both debuggingProto DebuggingFromProto Debugging *commonv1.Debugging

// Proto encodes d, nil for an empty value.
func (d Debugging) Proto() *commonv1.Debugging {
	if len(d.Adapters)+len(d.Configurations) == 0 {
		return nil
	}
	return debuggingProto(d)
}

// dapShape is the shape of the project's debug settings.
var dapShape = &shape{kind: objectShape, doc: "How the project's programs are debugged.", fields: []field{
	{name: "adapters", shape: &shape{
		kind: listShape, most: 32,
		doc: "Debug adapters in place of the operator's and of kaged's own, one for each runtime.",
		items: &shape{kind: objectShape, fields: []field{
			{name: "runtime", required: true, shape: text("The runtime.", 32, langPattern)},
			{name: "command", shape: programShape},
			{name: "adapter", shape: programShape},
			{name: "announces", shape: text("The text that it prints before the address it listens at.", 256, envValuePattern)},
			{name: "type", shape: text("The type that it wants to be told; unless set, the runtime.", 64, envValuePattern)},
		}},
	}},
	{name: "launch_json", shape: &shape{
		kind: booleanShape, doc: "Whether agents may debug by the names in .vscode/launch.json; false unless set.",
	}},
}}

// inspectedType is the type of a declared runtime that needs no adapter.
const inspectedType = "bun"

// debugging returns the project's debug settings.
func (b *builder) debugging(dap *node) (d Debugging) {
	if dap == nil {
		return d
	}
	for _, item := range dap.list("adapters") {
		a := DebugAdapter{
			Runtime: item.str("runtime"), Command: item.strings("command"), Announces: item.str("announces"),
			Type: item.str("type"),
		}
		// Beside an adapter, command starts the runtime. Only the adapter uses it.
		if adapter := item.strings("adapter"); len(adapter) > 0 {
			a.Command = adapter
		} else if len(a.Command) == 0 {
			b.diags.errorf(InvalidValue, item.pos, "dap.adapters", "The debug adapter of %q has no command.", a.Runtime)
		} else if a.Type == inspectedType {
			continue // kaged debugs this runtime over its inspector, without an adapter
		}
		if slices.ContainsFunc(d.Adapters, func(o DebugAdapter) bool { return o.Runtime == a.Runtime }) {
			b.diags.errorf(InvalidValue, item.pos, "dap.adapters", "There are two debug adapters for %q.", a.Runtime)
		}
		d.Adapters = append(d.Adapters, a)
	}
	slices.SortFunc(d.Adapters, func(x, y DebugAdapter) int { return cmp.Compare(x.Runtime, y.Runtime) })
	if v := dap.get("launch_json"); v != nil && v.flag {
		d.Configurations = b.configurations()
	}
	return d
}

// configurations returns the entries of [LaunchFile]. An unreadable file is a warning and not an error, because it
// belongs to an editor.
func (b *builder) configurations() (list []DebugConfiguration) {
	f, known := b.files[LaunchFile]
	if !known {
		b.want(LaunchFile)
		return nil
	}
	at := Position{File: LaunchFile}
	var file struct {
		Configurations []json.RawMessage `json:"configurations"`
	}
	switch {
	case !f.Present && f.Reason == "":
		return nil
	case !f.Present:
		b.diags.warnf(ParseError, at, "dap.launch_json", "%s cannot be used: %s.", LaunchFile, sentence(f.Reason))
		return nil
	case json.Unmarshal(jsonc.ToJSON(f.Content), &file) != nil:
		b.diags.warnf(ParseError, at, "dap.launch_json", "%s is no JSON with comments.", LaunchFile)
		return nil
	}
	for i, raw := range file.Configurations {
		var entry struct {
			Name string `json:"name"`
		}
		var short bytes.Buffer
		if json.Unmarshal(raw, &entry) != nil || entry.Name == "" || json.Compact(&short, raw) != nil {
			continue // without a name it cannot be selected
		}
		known := slices.ContainsFunc(list, func(c DebugConfiguration) bool { return c.Name == entry.Name })
		if known || i >= maxConfigurations || short.Len() > configurationBytes {
			b.diags.warnf(ParseError, at, "dap.launch_json",
				"Of %s, the configuration %q is not used: names are unique, and there are at most %d of at most %d bytes.",
				LaunchFile, shown(entry.Name), maxConfigurations, configurationBytes)
			continue
		}
		list = append(list, DebugConfiguration{Name: entry.Name, JSON: short.String()})
	}
	return list
}
