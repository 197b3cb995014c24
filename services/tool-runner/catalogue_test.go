package toolrunner_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	toolrunner "kaged.dev/services/tool-runner"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Every tool declares the fields of a registry: its source, which needs no plugin, its category, its requirements, and
// its limits, each with its config key (T-REG-01, T-REG-03, T-REG-04, T-REG-28, T-ARCH-02, T-ARCH-08, T-TOOLS-01).
func TestEveryToolIsDeclaredInFull(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	keys := configKeys()
	for _, tool := range list.GetTools() {
		name := tool.GetName()
		if space, _, _ := strings.Cut(name, "."); tool.GetNamespace() != space || space == "task" || name == "eval" ||
			name == "project.run" {
			t.Errorf("%s is in the namespace %s", name, tool.GetNamespace())
		}
		if tool.GetSource() != "builtin" || tool.GetPlugin() != "" || tool.GetAvailability() != nil ||
			tool.GetCategory() == 0 {
			t.Errorf("%s: %v", name, tool)
		}
		if len(tool.GetLimits()) == 0 {
			t.Errorf("%s has no limits", name)
		}
		for _, l := range tool.GetLimits() {
			if want, ok := keys[l.GetKey()]; !ok || want != l.GetValue() || l.GetDoc() == "" || l.GetUnit() == 0 {
				t.Errorf("%s: the limit %v; the configuration has %d", name, l, want)
			}
		}
		for _, r := range tool.GetRequires() {
			fs := r.GetKind() == "fs" && slices.Contains([]string{"ro", "rw"}, r.GetMode()) && r.GetPath() == "caller" &&
				r.GetName() == ""
			other := slices.Contains([]string{"seccomp", "net", "capability"}, r.GetKind()) && r.GetName() != "" &&
				r.GetPath() == "" && r.GetMode() == ""
			if !fs && !other {
				t.Errorf("%s requires %v", name, r)
			}
		}
	}
}

// configKeys are the keys of the configuration and their defaults, durations in milliseconds.
func configKeys() map[string]int64 {
	keys := map[string]int64{}
	cfg := reflect.ValueOf(toolrunner.DefaultConfig())
	for i := range cfg.NumField() {
		key := cfg.Type().Field(i).Tag.Get("toml")
		if d, ok := cfg.Field(i).Interface().(config.Duration); ok {
			keys[key] = int64(d.D() / time.Millisecond)
		} else if cfg.Field(i).CanInt() {
			keys[key] = cfg.Field(i).Int()
		}
	}
	return keys
}

// For a named caller the list shows which tools it can use, and for the others the error of a call.
func TestListToolsForACaller(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	ask := func(cage *commonv1.CagePolicy) map[string]*toolrunnerv1.Availability {
		t.Helper()
		list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{Context: &toolrunnerv1.ToolContext{
			Caller: "primary", ProjectRoot: c.root, Cage: cage,
		}})
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]*toolrunnerv1.Availability{}
		for _, tool := range list.GetTools() {
			byName[tool.GetName()] = tool.GetAvailability()
		}
		return byName
	}
	for name, a := range ask(nil) {
		if !a.GetAvailable() || a.GetReason() != nil {
			t.Errorf("%s: %v", name, a)
		}
	}
	caged := ask(&commonv1.CagePolicy{Fs: []*commonv1.CageMount{{Mode: "ro", Path: "./"}}})
	if a := caged["file.read"]; !a.GetAvailable() {
		t.Errorf("file.read: %v", a)
	}
	for _, name := range []string{"file.write", "shell.bash"} {
		if a := caged[name]; a.GetAvailable() || !errors.Is(fault.FromProto(a.GetReason()), fault.CapabilityDenied) {
			t.Errorf("%s: %v", name, a)
		}
	}
	if _, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{
		Context: &toolrunnerv1.ToolContext{ProjectRoot: "/nowhere"},
	}); !errors.Is(err, fault.NotFound) {
		t.Errorf("no project: %v", err)
	}
}

// Each namespace holds its tools and no others (T-ARCH-01, T-REG-02, T-REG-09, T-REG-10, T-REG-11, T-REG-14, T-REG-25,
// T-REG-29), tools have no versions (T-REG-31), edit.text takes exact strings and no anchors (T-REG-30), and no text
// names the engine that searches code (T-ARCH-11).
func TestNamespaces(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	takes := map[string][]string{
		"edit.text":  {"new_string", "old_string", "path", "replace_all"},
		"search.ast": {"context", "globs", "lang", "paths", "pattern"},
	}
	spaces := map[string][]string{}
	for _, tool := range list.GetTools() {
		spaces[tool.GetNamespace()] = append(spaces[tool.GetNamespace()], tool.GetName())
		if want, ok := takes[tool.GetName()]; ok {
			properties := tool.GetInputSchema().AsMap()["properties"].(map[string]any)
			if d := cmp.Diff(want, slices.Sorted(maps.Keys(properties))); d != "" {
				t.Errorf("%s takes: %s", tool.GetName(), d)
			}
		}
	}
	if d := cmp.Diff(map[string][]string{
		"file": {"file.read", "file.list", "file.write", "file.create"}, "edit": {"edit.text", "edit.ast", "edit.patch"},
		"search": {"search.grep", "search.glob", "search.ast"}, "code": {"code.lsp"}, "debug": {"debug"}, "shell": {
			"shell.bash", "shell.exec",
			"shell.process",
		}, "memory": {"memory.search", "memory.get"},
		"kaged": {"kaged.issue", "kaged.todo", "kaged.note"}, "project": {"project.skill"},
	}, spaces); d != "" {
		t.Error(d)
	}
}

// A caller with an empty cage runs no tool under any of its names, except those that need no grant: each call ends
// before the tool is reached, is recorded as denied, and leaves the project unchanged (T-PERM-01, T-DISP-03).
func TestEveryToolIsHeldAgainstTheCage(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	c.write("a", "text\n")
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, schema map[string]any) {
		input := fill(schema)
		if input["patch"] != nil {
			input["patch"] = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
		}
		text, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		req := c.request(name, string(text))
		req.Context.Caller, req.Context.Cage = "primary.subagents.x", &commonv1.CagePolicy{}
		_, result, err := c.run(req)
		if err != nil || !errors.Is(fault.FromProto(result.GetError()), fault.CapabilityDenied) {
			t.Errorf("%s %s: %v, %v", name, text, err, result)
			return
		}
		var events []string
		for _, r := range result.GetAudit() {
			events = append(events, r.GetEventType())
		}
		if !slices.Equal(events, []string{"tool.called", "tool.denied"}) {
			t.Errorf("%s: records %v", name, events)
		}
	}
	for _, tool := range list.GetTools() {
		if len(tool.GetRequires()) == 0 {
			continue
		}
		try(tool.GetName(), tool.GetInputSchema().AsMap())
		for _, a := range tool.GetAliases() {
			try(a.GetName(), a.GetInputSchema().AsMap())
		}
	}
	left, err := os.ReadDir(c.root)
	if err != nil || len(left) != 1 || len(box.asked) != 0 {
		t.Errorf("the project holds %v, %v; %d commands ran", left, err, len(box.asked))
	}
	if data, err := os.ReadFile(filepath.Join(c.root, "a")); err != nil || string(data) != "text\n" {
		t.Errorf("%q %v", data, err)
	}
}

// No tool reaches out of the project under any of its names, and no file is read or written outside (T-ARCH-06, T-BI-02
// to T-BI-04, T-TOOLS-S6.10).
func TestEveryToolKeepsToTheProject(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	outside := filepath.Join(filepath.Dir(c.root), "outside-"+filepath.Base(c.root))
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outside) })
	if err := os.WriteFile(filepath.Join(outside, "secret.go"), []byte("package secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	away := "../" + filepath.Base(outside)
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	try := func(name string, schema map[string]any) {
		for field, value := range map[string]string{
			"path": away + "/secret.go", "cwd": away, "workdir": away,
			"patch": "*** Begin Patch\n*** Delete File: " + away + "/secret.go\n*** End Patch\n",
		} {
			properties, _ := schema["properties"].(map[string]any)
			if properties[field] == nil {
				continue
			}
			tried++
			input := fill(schema)
			input[field] = value
			text, err := json.Marshal(input)
			if err != nil {
				t.Fatal(err)
			}
			_, result := c.call(name, string(text))
			if !errors.Is(fault.FromProto(result.GetError()), fault.InvalidParams) ||
				!strings.Contains(result.GetContent(), "outside") {
				t.Errorf("%s %s: %s", name, text, result.GetContent())
			}
		}
	}
	for _, tool := range list.GetTools() {
		try(tool.GetName(), tool.GetInputSchema().AsMap())
		for _, a := range tool.GetAliases() {
			try(a.GetName(), a.GetInputSchema().AsMap())
		}
	}
	if data, err := os.ReadFile(filepath.Join(outside, "secret.go")); err != nil || string(data) != "package secret\n" ||
		tried < 15 {
		t.Errorf("%q %v after %d calls", data, err, tried)
	}
}

// fill returns an object that a schema accepts, with its required properties.
func fill(schema map[string]any) map[string]any {
	input := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		p, _ := properties[name.(string)].(map[string]any)
		enum, _ := p["enum"].([]any)
		switch {
		case len(enum) > 0:
			input[name.(string)] = enum[0]
		case p["type"] == "object":
			input[name.(string)] = map[string]any{"a": "b"}
		case p["type"] == "array":
			input[name.(string)] = []any{"a"}
		case p["type"] == "integer":
			input[name.(string)] = 1
		default:
			input[name.(string)] = "a"
		}
	}
	return input
}
