package config

import (
	"fmt"
	"net"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// System is a deployment shared by several operators. They share the configuration, and each operator has their own
// workspace.
type System struct {
	// Enabled turns the mode on. A proxy signs operators in ([services.gateway] auth, "sidecar"), each service runs in its
	// own process, and projects are in the workspaces of [[workspaces]].
	Enabled bool `toml:"enabled"`
	// ProjectsRoot is the folder of a workspace that holds its projects, /projects by default. A folder outside of it is
	// not_found, also if it is reached by a link.
	ProjectsRoot string `toml:"projects_root"`
	// AdminGroup is the group of administrators, as the sign-in proxy names it; empty by default, without administrators.
	AdminGroup string `toml:"admin_group"`
	// AllowUncaged lets agents work without a cage; false by default, so that they are refused with cage_unavailable.
	AllowUncaged bool `toml:"allow_uncaged"`
	// WorkspaceWait is the time that a run waits for its drained workspace to be active again, 10m by default; then it
	// ends as interrupted.
	WorkspaceWait Duration `toml:"workspace_wait"`
}

// DefaultWorkspaceWait is the default of WorkspaceWait.
const DefaultWorkspaceWait = Duration(10 * time.Minute)

// DefaultProjectsRoot is the folder of projects in a workspace.
const DefaultProjectsRoot = "/projects"

// Root returns the folder of projects, "" if projects may be in any folder.
func (s System) Root() string {
	if !s.Enabled {
		return ""
	}
	return path.Clean(Or(s.ProjectsRoot, DefaultProjectsRoot))
}

// Workspace is the table [[workspaces]]: the four services beside a volume of projects, for one operator at a time.
type Workspace struct {
	// Name is the name in its certificates: 1 to 63 of a-z, 0-9 and -.
	Name string `toml:"name"`
	// Address is the address of its tool-runner, "host:port". Supervisor is the address of its sandbox-supervisor, for
	// terminals.
	Address    string `toml:"address"`
	Supervisor string `toml:"supervisor"`
}

// Workspace returns the workspace with the given name.
func (f *File) Workspace(name string) (Workspace, bool) {
	for _, w := range f.Workspaces {
		if w.Name == name {
			return w, true
		}
	}
	return Workspace{}, false
}

// label is one part of a DNS name in lower case.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (f *File) validateSystem(data []byte) error {
	s := f.System
	if s.ProjectsRoot != "" && (!path.IsAbs(s.ProjectsRoot) || path.Clean(s.ProjectsRoot) == "/") {
		return f.wrong(data, []string{"system", "projects_root"},
			fmt.Sprintf("%q must be an absolute path other than /", s.ProjectsRoot))
	}
	if g := s.AdminGroup; g != strings.TrimSpace(g) || strings.ContainsAny(g, ",\r\n") {
		return f.wrong(data, []string{"system", "admin_group"},
			fmt.Sprintf("%q must be the name of one group, without commas and spaces around it", g))
	}
	if s.WorkspaceWait < 0 {
		return f.wrong(data, []string{"system", "workspace_wait"},
			fmt.Sprintf("%s must not be negative; write a time such as 10m", s.WorkspaceWait))
	}
	if len(f.Workspaces) > 0 && !s.Enabled {
		return f.wrong(data, []string{"workspaces"},
			"workspaces have names in a shared deployment only; set enabled = true in [system]")
	}
	names, addresses := map[string]bool{}, map[string]string{}
	for i, w := range f.Workspaces {
		refuse := func(key, format string, args ...any) error {
			line, column := nthPosition(data, "workspaces", i, key)
			return at(f.Path, line, column, "workspaces."+key+": "+fmt.Sprintf(format, args...))
		}
		switch {
		case !label.MatchString(w.Name):
			return refuse("name", "%q must have 1 to 63 of a-z, 0-9 and -, and begin and end with a letter or digit", w.Name)
		case names[w.Name]:
			return refuse("name", "two workspaces have the name %q", w.Name)
		}
		names[w.Name] = true
		for _, v := range []struct{ key, address string }{{"address", w.Address}, {"supervisor", w.Supervisor}} {
			if v.key == "supervisor" && v.address == "" {
				continue // no terminals
			}
			if !isHostPort(v.address) {
				return refuse(v.key,
					"%q of workspace %q must be \"host:port\", because a workspace proves its name by a certificate",
					v.address, w.Name)
			}
			if other, taken := addresses[v.address]; taken {
				return refuse(v.key, "%q of workspace %q is also an address of workspace %q", v.address, w.Name, other)
			}
			addresses[v.address] = w.Name
		}
	}
	return nil
}

func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
