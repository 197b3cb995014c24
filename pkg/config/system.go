package config

import (
	"fmt"
	"net"
	"path"
	"regexp"
	"strconv"
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
		return f.wrong(data, []string{"system", "projects_root"}, "the folder of projects is absolute and not /")
	}
	if s.WorkspaceWait < 0 {
		return f.wrong(data, []string{"system", "workspace_wait"}, "the wait for a workspace is a time such as 10m")
	}
	if len(f.Workspaces) > 0 && !s.Enabled {
		return f.wrong(data, []string{"workspaces"}, "workspaces have names in system mode only: set enabled in [system]")
	}
	seen := map[string]bool{}
	for _, w := range f.Workspaces {
		switch {
		case !label.MatchString(w.Name):
			return f.wrong(data, []string{"workspaces"},
				fmt.Sprintf("the name of a workspace has 1 to 63 of a-z, 0-9 and -, unlike %q", w.Name))
		case seen[w.Name]:
			return f.wrong(data, []string{"workspaces"}, fmt.Sprintf("the workspace %q stands twice", w.Name))
		}
		seen[w.Name] = true
		for key, value := range map[string]string{"address": w.Address, "supervisor": w.Supervisor} {
			host, port, err := net.SplitHostPort(value)
			if key == "supervisor" && value == "" {
				continue // empty: no terminals
			}
			if _, badPort := strconv.ParseUint(port, 10, 16); err != nil || host == "" || badPort != nil {
				return f.wrong(data, []string{"workspaces"},
					fmt.Sprintf("%s of %q is \"host:port\", not %q: a workspace proves its name by a certificate", key, w.Name, value))
			}
		}
	}
	return nil
}
