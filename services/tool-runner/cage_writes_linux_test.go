package toolrunner_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"kaged.dev/pkg/ident"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// state is what a tree contains: for each path its type, mode, and content or link.
type state map[string]string

func stateOf(t *rapid.T, top string) state {
	s := state{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var text []byte
		switch {
		case info.Mode().IsRegular():
			text, err = os.ReadFile(path)
		case info.Mode()&fs.ModeSymlink != 0:
			var to string
			to, err = os.Readlink(path)
			text = []byte(to)
		}
		s[path] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// changed returns the paths that differ between two states.
func changed(before, after state) (paths []string) {
	for path, was := range before {
		if now, ok := after[path]; !ok || now != was {
			paths = append(paths, path)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// mayWrite decides by the text of a policy, without its view: the deepest grant around a real path is rw, of equal ones
// the last, and no name below it makes tools outside the cage run code.
func mayWrite(grants []*commonv1.CageMount, root, path string, before state) bool {
	deepest := -1
	holder, mode := "", ""
	for _, g := range grants {
		at := filepath.Join(root, g.GetPath())
		if (path == at || strings.HasPrefix(path, at+"/")) && len(at) >= deepest {
			deepest, holder, mode = len(at), at, g.GetMode()
		}
	}
	if mode != "rw" {
		return false
	}
	if path == holder && before[path] == "" {
		return false // what is granted must be there
	}
	parts := strings.Split(path, "/")
	for i := range parts {
		if i < strings.Count(holder, "/")+1 {
			continue
		}
		git := slices.Index(parts[:i], ".git")
		switch name := strings.ToLower(parts[i]); {
		case git >= 0 && git == i-1 &&
			slices.Contains([]string{"hooks", "config", "config.worktree", "commondir", "modules"}, name):
			return false
		case slices.Contains([]string{".kaged", ".envrc", ".vscode", ".claude", ".bashrc"}, name):
			return false
		case name == ".git":
			at := strings.Join(parts[:i+1], "/")
			if parts[i] != name || !strings.HasPrefix(before[at], "d") || before[at+"/HEAD"] == "" || i == len(parts)-1 {
				return false
			}
		}
	}
	return true
}

// drawWrite draws a call of a file tool. Most of them would write.
func drawWrite(t *rapid.T, root string, paths, files []string) (tool string, input map[string]any) {
	target := func(label string) string {
		if len(files) > 0 && rapid.Bool().Draw(t, "plain") { // an edit elsewhere mostly fails for other reasons
			return rapid.SampledFrom(files).Draw(t, label)
		}
		path := rapid.SampledFrom(paths).Draw(t, label)
		switch rapid.IntRange(0, 9).Draw(t, "spelling") {
		case 0, 1, 2:
			path += "/" + rapid.SampledFrom([]string{
				"new", "deep/new", ".envrc", ".GIT/config", ".git/hooks/x", ".git/x", ".kaged/project.yaml", ".VSCODE/tasks.json",
			}).Draw(t, "below")
		case 3:
			path += "/../" + rapid.SampledFrom([]string{"new", "a", ".kaged/x", "../outside/new"}).Draw(t, "beside")
		case 4:
			path = strings.ToUpper(path)
		case 5:
			path = "x/../" + path
		}
		switch rapid.IntRange(0, 3).Draw(t, "absolute") {
		case 0:
			return root + "/" + path
		case 1:
			return "./" + path
		}
		return path
	}
	switch kind := rapid.IntRange(0, 9).Draw(t, "tool"); kind {
	case 0, 1:
		return "file.write", map[string]any{"path": target("path"), "content": "written\n"}
	case 2:
		return "file.create", map[string]any{"path": target("path"), "content": "created\n"}
	case 3:
		return "edit.text", map[string]any{
			"path": target("path"), "old_string": "text", "new_string": "edited", "replace_all": true,
		}
	case 4, 5, 6:
		patch := "*** Begin Patch\n"
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				patch += "*** Add File: " + target("path") + "\n+added\n"
			case 1:
				patch += "*** Delete File: " + target("path") + "\n"
			case 2:
				patch += "*** Update File: " + target("path") + "\n*** Move to: " + target("to") + "\n"
			default:
				patch += "*** Update File: " + target("path") + "\n@@\n-text\n+patched\n"
			}
		}
		return "edit.patch", map[string]any{"patch": patch + "*** End Patch\n"}
	case 7:
		return "edit.ast", map[string]any{
			"rewrites": map[string]any{"text": "rewritten"}, "lang": "python", "path": target("path"), "dry_run": false,
		}
	default:
		return rapid.SampledFrom([]string{"search.grep", "search.glob", "search.ast"}).Draw(t, "search"), map[string]any{
			"pattern": "text", "paths": []string{target("path")}, "lang": "python",
		}
	}
}

// disturb changes a tree between two calls, as a shell or an operator may: a folder is renamed, replaced by a link, or
// made anew.
func disturb(t *rapid.T, root, outside string, paths []string) {
	at := filepath.Join(root, rapid.SampledFrom(paths).Draw(t, "disturbed"))
	other := filepath.Join(root, rapid.SampledFrom(paths).Draw(t, "other"))
	if at == root || other == root || strings.HasPrefix(other+"/", at+"/") {
		return
	}
	// A failure leaves the tree as it is, which is one of the cases.
	switch rapid.IntRange(0, 3).Draw(t, "disturbance") {
	case 0:
		_ = os.Rename(at, at+".moved")
	case 1:
		if os.Rename(at, at+".moved") == nil {
			_ = os.Symlink(rapid.SampledFrom([]string{outside, other, at + ".moved"}).Draw(t, "link"), at)
		}
	case 2:
		if os.Rename(at, at+".moved") == nil {
			_ = os.Mkdir(at, 0o755)
		}
	default:
		_ = os.Rename(other, filepath.Join(at, "moved"))
	}
}

// For any project, policy and series of calls, no file tool changes what the policy forbids: not through links, "..",
// other spellings and absolute paths, nor after folders were moved or replaced.
func TestFileToolsWriteNothingForbidden(t *testing.T) {
	t.Parallel()
	c := start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	context := c.request("", "").GetContext()
	written := 0
	rapid.Check(t, func(t *rapid.T) {
		base, err := os.MkdirTemp(c.root, "writes-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		root, outside := filepath.Join(base, "project"), filepath.Join(base, "outside")
		for _, dir := range []string{root, outside} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("text\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		folders, files, links := drawProject(t, root, outside)
		paths := slices.Concat(folders, files, links)
		policy := &commonv1.CagePolicy{Seccomp: "default", State: "ephemeral"}
		for range rapid.IntRange(1, 4).Draw(t, "mounts") {
			policy.Fs = append(policy.Fs, &commonv1.CageMount{
				Mode: rapid.SampledFrom([]string{"ro", "rw", "rw"}).Draw(t, "mode"),
				Path: "./" + strings.TrimPrefix(rapid.SampledFrom(slices.Concat(folders, files)).Draw(t, "grant"), "."),
			})
		}
		call := func(tool string, input map[string]any) bool {
			text, err := json.Marshal(input)
			if err != nil {
				t.Fatal(err)
			}
			req := &toolrunnerv1.RunToolRequest{
				CallId: ident.New(), Tool: tool, Input: string(text), Context: proto.CloneOf(context),
			}
			req.Context.ProjectRoot, req.Context.Cage, req.Context.SessionId = root, policy, filepath.Base(base)
			return approved(t, c, req).GetError() == nil
		}
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			for _, p := range files {
				call("file.read", map[string]any{"path": p}) // an edit needs it
			}
			if rapid.IntRange(0, 3).Draw(t, "disturb") == 0 {
				disturb(t, root, outside, paths)
			}
			before := stateOf(t, base)
			tool, input := drawWrite(t, root, paths, files)
			ok := call(tool, input)
			for _, path := range changed(before, stateOf(t, base)) {
				if written++; !ok {
					t.Errorf("%s %v failed and changed %s", tool, input, path)
				}
				if !mayWrite(policy.GetFs(), root, path, before) {
					t.Errorf("%s %v changed %s; the policy is %v", tool, input, path, policy.GetFs())
				}
			}
		}
	})
	if written == 0 {
		t.Error("nothing was written, so nothing is proved")
	}
}
