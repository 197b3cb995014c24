package toolrunner_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ident"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// drawProject fills an empty project with folders, files and links, some leading out of it, and returns their paths in
// it.
func drawProject(t *rapid.T, root, outside string) (folders, files, links []string) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	folders = []string{"."}
	for range rapid.IntRange(3, 12).Draw(t, "entries") {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", ".git", "hooks", ".kaged", "ü"}).Draw(t, "name")
		path := filepath.Join(rapid.SampledFrom(folders).Draw(t, "in"), name)
		at := filepath.Join(root, path)
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0, 1:
			must(os.Mkdir(at, 0o755))
			folders = append(folders, path)
		case 2, 3:
			must(os.WriteFile(at, []byte("text\n"), 0o644))
			files = append(files, path)
		default:
			target := rapid.SampledFrom(slices.Concat([]string{
				outside, filepath.Join(outside, "secret"), filepath.Join(root, "missing"),
			},
				absolute(root, folders), absolute(root, files), absolute(root, links))).
				Draw(t, "target")
			if rapid.Bool().Draw(t, "relative") {
				rel, err := filepath.Rel(filepath.Dir(at), target)
				must(err)
				target = rel
			}
			must(os.Symlink(target, at))
			links = append(links, path)
		}
	}
	return folders, files, links
}

func absolute(root string, paths []string) (list []string) {
	for _, p := range paths {
		list = append(list, filepath.Join(root, p))
	}
	return list
}

// able is the access to a path: reading a file or listing a folder, and writing the file or creating one in the folder.
type able struct{ read, write bool }

// For any project and policy, the file tools of a caged agent have the same access as its shell, except for protected
// names, and neither leaves the project. (T-PERM-03)
func TestFileToolsAndShellAgree(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	context := w.request("", "").GetContext()
	rapid.Check(t, func(t *rapid.T) {
		base, err := os.MkdirTemp(w.root, "property-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		root, outside := filepath.Join(base, "project"), filepath.Join(base, "outside")
		for _, dir := range []string{root, outside, filepath.Join(root, "desk")} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		folders, files, links := drawProject(t, root, outside)
		policy := &commonv1.CagePolicy{Capabilities: []string{"shell"}, Seccomp: "default", State: "ephemeral"}
		policy.Fs = []*commonv1.CageMount{{Mode: "rw", Path: "./desk"}} // the shell's working folder
		for range rapid.IntRange(1, 3).Draw(t, "mounts") {
			policy.Fs = append(policy.Fs, &commonv1.CageMount{
				Mode: rapid.SampledFrom([]string{"ro", "rw", "rw"}).Draw(t, "mode"),
				Path: "./" + rapid.SampledFrom(slices.Concat(folders, files, links)).Draw(t, "grant"),
			})
		}
		call := func(tool string, params map[string]any) (string, error) {
			input, err := json.Marshal(params)
			if err != nil {
				t.Fatal(err)
			}
			req := &toolrunnerv1.RunToolRequest{
				CallId:  ident.New(),
				Tool:    tool,
				Input:   string(input),
				Context: proto.CloneOf(context),
			}
			req.Context.ProjectRoot, req.Context.Cage, req.Context.SessionId = root, policy, filepath.Base(base)
			result := approved(t, w.client, req)
			if e := result.GetError(); e != nil {
				return "", errors.New(e.GetCode().String() + ": " + e.GetMessage())
			}
			return result.GetContent(), nil
		}
		paths := slices.Concat(folders, files, links)
		shell, err := shellCan(call, root, paths)
		if err != nil {
			// If no cage can be made, the tools refuse everything too.
			for _, p := range files {
				if _, read := call("file.read", map[string]any{"path": "./" + p}); read == nil {
					t.Errorf("%s is read though there can be no cage: %v", p, err)
				}
			}
			return
		}
		for i, p := range paths {
			tools := toolsCan(call, root, p)
			real, err := filepath.EvalSymlinks(filepath.Join(root, p))
			if err == nil && real != root && !strings.HasPrefix(real, root+"/") &&
				(tools.read || tools.write || shell[i].read || shell[i].write) {
				t.Errorf("%s leads to %s: the tools can %+v, the shell %+v", p, real, tools, shell[i])
			}
			plain := real == filepath.Join(root, p)
			// For the shell a folder on the way to a grant exists and contains only that way. A link may lead through missing
			// folders.
			info, err := os.Stat(filepath.Join(root, p))
			way := err == nil && info.IsDir() && !tools.read && !shell[i].write
			// File tools refuse a protected name, and a .git without a repository, in every folder; a shell can write them if
			// there is no stub or rule.
			_, protected := dsl.ProtectedPart(strings.TrimPrefix(real, root+"/"))
			if (protected || strings.Contains(real+"/", "/.git/")) && !tools.write {
				shell[i].write = false
			}
			if !way && (shell[i].read && !tools.read || plain && shell[i].read != tools.read) ||
				shell[i].write && !tools.write ||
				plain && shell[i].write != tools.write {
				t.Errorf("%s: the tools can %+v, the shell %+v; the policy is %v", p, tools, shell[i], policy.GetFs())
			}
		}
	})
}

// approved runs a call, with an operator's approval if it needs one.
func approved(t *rapid.T, w *client, req *toolrunnerv1.RunToolRequest) *toolrunnerv1.ToolResult {
	for {
		stream, err := w.RunTool(w.t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for {
			event, err := stream.Recv()
			if err != nil {
				t.Fatalf("%s %s: %v", req.GetTool(), req.GetInput(), err)
			}
			if result := event.GetResult(); result != nil {
				return result
			}
			if needed := event.GetApproval(); needed != nil {
				req.Grant = &toolrunnerv1.ToolGrant{Fingerprint: needed.GetFingerprint()}
				break
			}
		}
	}
}

// shellCan tests the access with a shell in the cage.
func shellCan(call func(string, map[string]any) (string, error), root string, paths []string) ([]able, error) {
	quoted := make([]string, len(paths))
	for i, p := range absolute(root, paths) {
		quoted[i] = "'" + p + "'"
	}
	content, err := call("shell.bash", map[string]any{"command": `for p in ` + strings.Join(quoted, " ") + `; do
	if [ -d "$p" ]; then
		ls "$p" >/dev/null 2>&1 && r=1 || r=0
		(: >"$p/.new") 2>/dev/null && w=1 || w=0
	else
		(: <"$p") 2>/dev/null && r=1 || r=0
		[ -e "$p" ] && (: >>"$p") 2>/dev/null && w=1 || w=0
	fi
	echo $r$w
done`, "cwd": "./desk"})
	if err != nil {
		return nil, err
	}
	var said struct {
		Output string `json:"output"`
		Stdout string `json:"stdout"`
	}
	if err := json.Unmarshal([]byte(content), &said); err != nil {
		return nil, err
	}
	lines := strings.Fields(said.Output + said.Stdout)
	if len(lines) != len(paths) {
		return nil, errors.New("the shell said " + strconv.Quote(content))
	}
	can := make([]able, len(paths))
	for i, l := range lines {
		_ = os.Remove(filepath.Join(root, paths[i], ".new"))
		can[i] = able{l[0] == '1', l[1] == '1'}
	}
	return can, nil
}

// toolsCan tests the access with the file tools.
func toolsCan(call func(string, map[string]any) (string, error), root, path string) (can able) {
	name := "./" + path
	info, err := os.Stat(filepath.Join(root, path))
	if err == nil && info.IsDir() {
		_, err = call("file.list", map[string]any{"path": name})
		can.read = err == nil
		_, err = call("file.write", map[string]any{"path": name + "/.new", "content": "x"})
		can.write = err == nil
		_ = os.Remove(filepath.Join(root, path, ".new"))
		return can
	}
	_, err = call("file.read", map[string]any{"path": name})
	can.read = err == nil
	_, err = call("file.write", map[string]any{"path": name, "content": "text\n"})
	can.write = err == nil
	return can
}
