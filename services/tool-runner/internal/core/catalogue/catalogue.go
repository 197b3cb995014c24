// Package catalogue joins the tools of all sources into one list, and checks its rules: the form of names, the owners
// of namespaces, and that each name has one meaning.
package catalogue

import (
	"regexp"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// cliNamespace is the namespace of the operator's commands.
const cliNamespace = "cli"

// reserved are the namespaces that plugins cannot have: those of kaged's own tools, those kept for them, and that of
// commands.
var reserved = []string{
	"file", "edit", "search", "code", "debug", "shell", "compute", "project", "kaged", "web", "discover", "media", "job",
	"session", "message", "memory", cliNamespace,
}

// Reserved returns the namespaces that no plugin can have.
func Reserved() []string { return slices.Clone(reserved) }

// childPrefix begins the names of the tools with which an agent calls its children.
const childPrefix = "agent-"

// maxName is the maximum length of a name in bytes: providers allow 64, and each dot becomes two characters.
const maxName = 64

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$`)

// CheckName returns the error in a name, "" for a valid one.
func CheckName(name string) string {
	switch {
	case !nameForm.MatchString(name):
		return "a name is made of a-z, 0-9, _ and -, and begins with a letter"
	case strings.Contains(name, "__"):
		return "a name holds no double underscore, which stands for a dot in what models are told"
	case len(name)+strings.Count(name, ".") > maxName:
		return "a name has at most 64 characters"
	case strings.HasPrefix(name, childPrefix):
		return "names that begin with agent- are those of an agent's children"
	}
	return ""
}

// Join returns the tools of all sources in order. It fails with conflict if two tools have the same name or alias, and
// with bad_request for an invalid name or a namespace of another source.
func Join(sources ...[]*tool.Entry) ([]*tool.Entry, error) {
	var list []*tool.Entry
	owners := map[string]*tool.Entry{}
	for _, entry := range slices.Concat(sources...) {
		if err := checkNamespace(entry); err != nil {
			return nil, err
		}
		names := []string{entry.Name()}
		for _, a := range entry.Aliases {
			names = append(names, a.Name)
		}
		for _, name := range names {
			if why := CheckName(name); why != "" {
				return nil, fault.New(fault.BadRequest, "The tool %q of %s cannot be called so: %s.", name, origin(entry), why).
					With("tool", name)
			}
			if other := owners[name]; other != nil {
				return nil,
					fault.New(fault.Conflict, "The name %q of a tool of %s is taken by %s of %s.", name, origin(entry), other.Name(),
						origin(other)).
						With("tool", name)
			}
			owners[name] = entry
		}
		list = append(list, entry)
	}
	return list, nil
}

// checkNamespace restricts each source to its own namespaces.
func checkNamespace(e *tool.Entry) error {
	space := e.Namespace()
	switch {
	case e.Source == tool.CLI && space != cliNamespace, e.Source == tool.Builtin && space == cliNamespace:
		return fault.New(fault.BadRequest, "The tool %s of %s does not belong into the namespace %s.", e.Name(), origin(e),
			space).
			With("tool", e.Name())
	case e.Source == tool.Plugin && slices.Contains(reserved, space):
		return fault.New(fault.BadRequest, "The namespace %s is reserved: %s cannot declare %s.", space, origin(e), e.Name()).
			With("tool", e.Name())
	case e.Source == tool.Plugin && space != e.Plugin:
		return fault.New(fault.BadRequest, "The tool %s of %s does not begin with the plugin's name.", e.Name(), origin(e)).
			With("tool", e.Name())
	}
	return nil
}

// origin formats a tool's source for a sentence.
func origin(e *tool.Entry) string {
	switch e.Source {
	case tool.CLI:
		return "tools.yaml"
	case tool.Plugin:
		return "the plugin " + e.Plugin
	}
	return "kaged"
}
