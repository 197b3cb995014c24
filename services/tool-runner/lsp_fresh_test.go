package toolrunner_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// changer changes random files of a project, each time in one of the possible ways.
type changer struct {
	*client
	language
	random *rand.Rand
	log    []string
}

// language is the texts of a project's files in one language.
type language struct {
	suffix, head string
	seeds        uint64
	// project are the files that do not change.
	project map[string]string
	// contents are the possible contents of file i, which refers to file other, in the language's order of errors.
	contents func(i, other, n int) []string
}

var goFiles = language{
	suffix: ".go", head: "package m\n\n", seeds: 3,
	project: map[string]string{"go.mod": "module example.com/m\n\ngo 1.24\n", "doc.go": "package m\n"},
	contents: func(i, other, n int) []string {
		return []string{
			fmt.Sprintf("func F%d() int { return %d }\n", i, n),
			fmt.Sprintf("func F%d() int { return \"text\" }\n", i),
			fmt.Sprintf("func F%d() int { return F%d() + 1 }\n", i, other),
			fmt.Sprintf("func F%d(s string) int { return len(s) }\n", i),
			fmt.Sprintf("func F%d() int { return F%d(\"a\") }\n", i, other),
			fmt.Sprintf("func F%d( {\n", i),
		}
	},
}

var typeScriptFiles = language{
	suffix: ".ts", seeds: 1,
	project: map[string]string{
		"tsconfig.json": "{\"compilerOptions\":{\"strict\":true,\"noEmit\":true},\"include\":[\"*.ts\"]}\n",
		"doc.ts":        "export {}\n",
	},
	contents: func(i, other, n int) []string {
		from := fmt.Sprintf("import { F%d as other } from \"./f%d\"\n", other, other)
		return []string{
			fmt.Sprintf("export function F%d(): number { return %d }\n", i, n),
			fmt.Sprintf("export function F%d(): number { return \"text\" }\n", i),
			from + fmt.Sprintf("export function F%d(): number { return other() + 1 }\n", i),
			fmt.Sprintf("export function F%d(s: string): number { return s.length }\n", i),
			from + fmt.Sprintf("export function F%d(): number { return other(\"a\") }\n", i),
			// An error at the end of the file has a different position in tsserver after a change than after a start.
			fmt.Sprintf("export function F%d(): number { return 1 + }\n", i),
		}
	},
}

// freshFiles is the number of files that change. File i has function i.
const freshFiles = 4

// content returns the content of a file: without error, with an error of its own, or with an error that depends on
// another file.
func (c *changer) content(i int) string {
	list := c.contents(i, c.random.IntN(freshFiles), c.random.IntN(9))
	return c.head + list[c.random.IntN(len(list))]
}

// change makes one random change.
func (c *changer) change() {
	i := c.random.IntN(freshFiles)
	name := fmt.Sprintf("f%d%s", i, c.suffix)
	path := filepath.Join(c.root, name)
	content := c.content(i)
	roads := []string{
		"file tool", "another agent", "shell", "editor", "in place", "removed", "moved", "git commit", "git reset",
	}
	road := roads[c.random.IntN(len(roads))]
	c.log = append(c.log, road+" "+name+" "+strings.TrimPrefix(content, c.head))
	var err error
	switch road {
	case "file tool":
		c.tool("file.write", content, name, func(*toolrunnerv1.ToolContext) {})
	case "another agent":
		c.tool("file.write", content, name, func(x *toolrunnerv1.ToolContext) {
			x.SessionId, x.Caller = "another", "primary.subagents.coder"
			x.Cage = &commonv1.CagePolicy{
				Seccomp: "default", State: "ephemeral", Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/"}},
			}
		})
	case "shell":
		c.tool("shell.bash", "cat > "+name+" <<'EOF'\n"+content+"EOF\n", "", func(*toolrunnerv1.ToolContext) {})
	case "editor":
		if err = os.WriteFile(path+"~", []byte(content), 0o600); err == nil {
			err = os.Rename(path+"~", path)
		}
	case "in place":
		err = os.WriteFile(path, []byte(content), 0o600)
	case "removed":
		_ = os.Remove(path) // it may be missing
	case "moved":
		to := filepath.Join(c.root, fmt.Sprintf("moved%d%s", i, c.suffix))
		_ = os.Rename(path, to) // it may be missing
	case "git commit":
		c.git("add", "-A")
		c.git("commit", "-q", "--allow-empty", "-m", "a state")
	case "git reset":
		c.git("clean", "-fdq")
		c.git("reset", "-q", "--hard", "HEAD")
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// tool runs a call of an agent that need not read the files first.
func (c *changer) tool(tool, content, name string, as func(*toolrunnerv1.ToolContext)) {
	c.t.Helper()
	params := map[string]any{"path": name, "content": content}
	if tool == "shell.bash" {
		params = map[string]any{"command": content}
	}
	req := c.request(tool, text(params))
	req.Context.KnowsFiles = true
	as(req.Context)
	if _, result, err := c.run(req); err != nil || result.GetError() != nil {
		c.t.Fatalf("%s: %v, %v", tool, err, result.GetError())
	}
}

func (c *changer) git(args ...string) {
	c.t.Helper()
	args = append([]string{"-c", "user.name=a", "-c", "user.email=a@localhost"}, args...)
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir = c.root
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// errors returns the errors that a server reports for the package.
func (c *client) errors() []string {
	c.t.Helper()
	res := c.lsp(`{"action":"diagnostics","path":".","severity":"error"}`)
	list := []string{}
	found, ok := res["diagnostics"].([]any)
	if !ok {
		c.t.Fatalf("diagnostics answered %s", text(res))
	}
	for _, d := range found {
		list = append(list, text(d))
	}
	slices.Sort(list)
	return list
}

// T-LSP-SYNC-01..04: answers are never stale. After random changes made in every way, a running server reports the same
// errors as a newly started one.
func TestNeverStale(t *testing.T) {
	t.Parallel()
	for name, lang := range map[string]language{"go": goFiles, "typescript": typeScriptFiles} {
		for seed := range lang.seeds {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				neverStale(t, lang, seed)
			})
		}
	}
}

func neverStale(t *testing.T, lang language, seed uint64) {
	c := &changer{client: besidePool(t, ""), language: lang, random: rand.New(rand.NewPCG(seed, seed))}
	fresh := besidePool(t, "")
	fresh.root = c.root
	for name, content := range c.project {
		c.write(name, content)
	}
	c.git("init", "-q")
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "begin")
	for range 8 {
		for range 1 + c.random.IntN(4) {
			c.change()
		}
		got := c.errors()
		fresh.lsp(`{"action":"reload"}`)
		if want := fresh.errors(); !slices.Equal(got, want) {
			t.Fatalf("after\n%s\nthe server says\n%s\nand a new one\n%s", strings.Join(c.log, "\n"),
				strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
