package config_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/config"
)

// Workspaces belong to a shared deployment: they have names for certificates and TCP addresses, and the folder of
// projects is not the root folder.
func TestSystem(t *testing.T) {
	t.Parallel()
	const on = "[system]\nenabled = true\n"
	for text, wrong := range map[string]string{
		on: "",
		on + "projects_root = \"/srv/p/\"\n[[workspaces]]\nname = \"w-0\"\naddress = \"w-0.w:7424\"\n": "",
		"[[workspaces]]\nname = \"w\"\naddress = \"w:1\"\n":                                            "set enabled",
		on + "projects_root = \"/\"\n":                                                                 "not /",
		on + "projects_root = \"p\"\n":                                                                 "absolute",
		on + "[[workspaces]]\nname = \"W\"\naddress = \"w:1\"\n":                                       "a-z",
		on + "[[workspaces]]\nname = \"w\"\naddress = \"unix:/w.sock\"\n":                              "certificate",
		on + "[[workspaces]]\nname = \"w\"\naddress = \"w:1\"\nsupervisor = \"w\"\n":                   "supervisor",
		on + strings.Repeat("[[workspaces]]\nname = \"w\"\naddress = \"w:1\"\n", 2):                    "twice",
		on + "workspace_wait = \"1m\"\n":                                                               "",
		on + "workspace_wait = \"-1m\"\n":                                                              "workspace",
		on + "administrators = \"a\"\n":                                                                "unknown key",
	} {
		f, err := config.Parse("local.toml", []byte(text))
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: got %v, want %q", text, err, wrong)
		}
		if err == nil && len(f.Workspaces) > 0 && wrong == "" {
			if w, ok := f.Workspace("w-0"); !ok || w.Address != "w-0.w:7424" || f.System.Root() != "/srv/p" {
				t.Errorf("got %+v, %t, root %s", w, ok, f.System.Root())
			}
		}
	}
	if root := (config.System{}).Root(); root != "" {
		t.Errorf("without system mode the root is %q", root)
	}
}
