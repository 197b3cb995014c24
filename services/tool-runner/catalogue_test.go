package toolrunner_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	toolrunner "kaged.dev/services/tool-runner"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Every tool says all that a registry needs to know of it: its source, what it requires, and its bounds, each with the key
// that sets it (T-REG-01, T-REG-03, T-REG-04, T-ARCH-02, T-REG-28).
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
		if space, _, _ := strings.Cut(name, "."); tool.GetNamespace() != space || space == "task" || name == "eval" || name == "project.run" {
			t.Errorf("%s is in the namespace %s", name, tool.GetNamespace())
		}
		if tool.GetSource() != "builtin" || tool.GetPlugin() != "" || tool.GetAvailability() != nil || tool.GetCategory() == 0 {
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
			fs := r.GetKind() == "fs" && slices.Contains([]string{"ro", "rw"}, r.GetMode()) && r.GetPath() == "caller" && r.GetName() == ""
			other := slices.Contains([]string{"seccomp", "net", "capability"}, r.GetKind()) && r.GetName() != "" && r.GetPath() == "" && r.GetMode() == ""
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

// A caller that is named learns which tools it can use, and of the others what a call would fail with.
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
	if _, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{Context: &toolrunnerv1.ToolContext{ProjectRoot: "/nowhere"}}); !errors.Is(err, fault.NotFound) {
		t.Errorf("no project: %v", err)
	}
}
