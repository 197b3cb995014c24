package config_test

import (
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// A shared deployment is read with its defaults, and its workspaces are found by name.
func TestSystem(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("local.toml", []byte("[system]\nenabled = true\nprojects_root = \"/srv/p/\"\n"+
		"admin_group = \"Kaged Admins\"\n[[workspaces]]\nname = \"w-0\"\naddress = \"w-0.w:7424\"\n"+
		"[[workspaces]]\nname = \"w-1\"\naddress = \"w-1.w:7424\"\nsupervisor = \"w-1.w:7425\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if w, ok := f.Workspace("w-0"); !ok || w.Address != "w-0.w:7424" || f.System.Root() != "/srv/p" {
		t.Errorf("got %+v, %t, root %s", w, ok, f.System.Root())
	}
	if _, ok := f.Workspace("w-2"); ok {
		t.Error("found w-2, which is absent")
	}
	if root := (config.System{Enabled: true}).Root(); root != config.DefaultProjectsRoot {
		t.Errorf("by default the root is %q", root)
	}
	if root := (config.System{}).Root(); root != "" {
		t.Errorf("without system mode the root is %q", root)
	}
}

// Each invalid value of [system] and [[workspaces]] is refused as bad_request, in one sentence with its place, its key
// and what to write.
func TestSystemRefusals(t *testing.T) {
	t.Parallel()
	const on = "[system]\nenabled = true\n"
	const proves = "because a workspace proves its name by a certificate"
	one := func(keys string) string { return on + "[[workspaces]]\n" + keys + "\n" }
	const first = on + "[[workspaces]]\nname = \"a\"\naddress = \"a:1\"\nsupervisor = \"a:2\"\n"
	for name, c := range map[string]struct{ text, want string }{
		"workspaces without system": {
			"[[workspaces]]\nname = \"w\"\naddress = \"w:1\"\n",
			"local.toml:1:3: workspaces: workspaces have names in a shared deployment only; set enabled = true in [system]",
		},
		"the root folder": {
			on + "projects_root = \"/./\"\n",
			`local.toml:3:1: system.projects_root: "/./" must be an absolute path other than /`,
		},
		"a relative folder": {
			on + "projects_root = \"p\"\n",
			`local.toml:3:1: system.projects_root: "p" must be an absolute path other than /`,
		},
		"two groups": {
			on + "admin_group = \"a,b\"\n",
			`local.toml:3:1: system.admin_group: "a,b" must be the name of one group, without commas and spaces around it`,
		},
		"a group with a space": {
			on + "admin_group = \" a\"\n",
			`local.toml:3:1: system.admin_group: " a" must be the name of one group, without commas and spaces around it`,
		},
		"a negative wait": {
			on + "workspace_wait = \"-1m\"\n",
			"local.toml:3:1: system.workspace_wait: -1m0s must not be negative; write a time such as 10m",
		},
		"a wait that is no time": {
			on + "workspace_wait = \"soon\"\n", `"soon" is not a duration such as 90s or 10m`,
		},
		"a wait without a unit": {
			on + "workspace_wait = 600\n",
			`local.toml:3:1: system.workspace_wait: want a time with its unit in quotes, such as "90s"`,
		},
		"allow_uncaged as a text": {
			on + "allow_uncaged = \"yes\"\n", "local.toml:3:17: system.allow_uncaged: want true or false, not a TOML string",
		},
		"an unknown key": {on + "administrators = \"a\"\n", `local.toml:3:1: unknown key "system.administrators"`},
		"no name": {
			one(`address = "w:1"`),
			`local.toml:3:3: workspaces.name: "" must have 1 to 63 of a-z, 0-9 and -, ` +
				"and begin and end with a letter or digit",
		},
		"a name in upper case": {
			one("address = \"w:1\"\nname = \"W\""),
			`local.toml:5:1: workspaces.name: "W" must have 1 to 63 of a-z, 0-9 and -, ` +
				"and begin and end with a letter or digit",
		},
		"a name twice": {
			first + "[[workspaces]]\nname = \"a\"\naddress = \"b:1\"\n",
			`local.toml:8:1: workspaces.name: two workspaces have the name "a"`,
		},
		"no address": {
			one(`name = "w"`), `local.toml:3:3: workspaces.address: "" of workspace "w" must be "host:port", ` + proves,
		},
		"a socket": {
			one("name = \"w\"\naddress = \"unix:/w.sock\""),
			`local.toml:5:1: workspaces.address: "unix:/w.sock" of workspace "w" must be "host:port", ` + proves,
		},
		"port 0": {
			one("name = \"w\"\naddress = \"w:0\""),
			`local.toml:5:1: workspaces.address: "w:0" of workspace "w" must be "host:port", ` + proves,
		},
		"a supervisor without a port": {
			one("name = \"w\"\naddress = \"w:1\"\nsupervisor = \"w\""),
			`local.toml:6:1: workspaces.supervisor: "w" of workspace "w" must be "host:port", ` + proves,
		},
		"an address twice": {
			first + "[[workspaces]]\nname = \"b\"\naddress = \"a:1\"\n",
			`local.toml:9:1: workspaces.address: "a:1" of workspace "b" is also an address of workspace "a"`,
		},
		"a supervisor at the address": {
			first + "[[workspaces]]\nname = \"b\"\naddress = \"b:1\"\nsupervisor = \"b:1\"\n",
			`local.toml:10:1: workspaces.supervisor: "b:1" of workspace "b" is also an address of workspace "b"`,
		},
		"an unknown key of a workspace": {
			one("name = \"w\"\naddress = \"w:1\"\noperator = \"ada\""), `local.toml:6:1: unknown key "workspaces.operator"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("local.toml", []byte(c.text))
			if !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant bad_request with %s", err, c.want)
			}
		})
	}
}
