package catalogue_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/catalogue"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

type nothing struct{}

func entry(name string, source tool.Source, plugin string, aliases ...string) *tool.Entry {
	spec := tool.Spec[nothing, nothing]{
		Name: name,
		Run:  func(context.Context, *tool.Call, *nothing) (nothing, error) { return nothing{}, nil },
	}
	for _, a := range aliases {
		spec.Aliases = append(spec.Aliases, tool.AliasOf(a, "", func(n nothing) nothing { return n }))
	}
	e := tool.Define(spec)
	e.Source, e.Plugin = source, plugin
	return e
}

// The tools of all sources make one list in the order of the sources.
func TestJoin(t *testing.T) {
	t.Parallel()
	list, err := catalogue.Join(
		[]*tool.Entry{entry("file.read", tool.Builtin, "", "read"), entry("debug", tool.Builtin, "")},
		[]*tool.Entry{entry("cli.kubectl_get", tool.CLI, "", "kubectl_get")},
		[]*tool.Entry{entry("weather.today", tool.Plugin, "weather")},
	)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "file.read debug cli.kubectl_get weather.today" {
		t.Errorf("joined %s", got)
	}
}

// A name or an alias in use is refused with both owners (tools-notes 1.4: collisions are load errors).
func TestCollisions(t *testing.T) {
	t.Parallel()
	for name, two := range map[string][2]*tool.Entry{
		"two tools": {entry("file.read", tool.Builtin, ""), entry("file.read", tool.Builtin, "")},
		"a command like an alias": {
			entry("file.read", tool.Builtin, "", "read"), entry("cli.read", tool.CLI, "", "read"),
		},
		"a plugin like a command":      {entry("cli.go", tool.CLI, "", "go"), entry("go", tool.Plugin, "go")},
		"an alias like the tool's own": {entry("debug", tool.Builtin, "", "debug"), entry("x", tool.Plugin, "x")},
	} {
		_, err := catalogue.Join(two[:1], two[1:])
		if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "taken by") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A plugin cannot have a namespace of kaged or of another plugin (T-REG-21, T-REG-22).
func TestReservedNamespaces(t *testing.T) {
	t.Parallel()
	for _, space := range []string{
		"file", "edit", "search", "code", "debug", "shell", "compute", "project", "kaged", "web", "discover", "media", "job",
		"session", "message", "memory", "cli",
	} {
		if _, err := catalogue.Join([]*tool.Entry{entry(space+".x", tool.Plugin, space)}); !errors.Is(
			err,
			fault.BadRequest,
		) ||
			!strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: %v", space, err)
		}
	}
	if got := len(catalogue.Reserved()); got != 17 {
		t.Errorf("%d namespaces are reserved", got)
	}
	for _, e := range []*tool.Entry{
		entry("a.x", tool.Plugin, "b"), entry("x.y", tool.CLI, ""), entry("cli.y", tool.Builtin, ""),
	} {
		if _, err := catalogue.Join([]*tool.Entry{e}); !errors.Is(err, fault.BadRequest) {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
}

// A name that models or patterns would misread is invalid.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "A", "1a", "a b", "a..b", ".a", "a.", "a__b", "agent-x", "a*", strings.Repeat("a", 65),
		"ab." + strings.Repeat("a", 61),
	} {
		if catalogue.CheckName(bad) == "" {
			t.Errorf("%q is a name", bad)
		}
	}
	for _, good := range []string{"debug", "file.read", "cli.kubectl_get", "a-b.c-d", strings.Repeat("a", 64)} {
		if why := catalogue.CheckName(good); why != "" {
			t.Errorf("%q: %s", good, why)
		}
	}
}
