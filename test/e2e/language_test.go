package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// shapes is a program in two languages, each with an interface, its implementation, and a use.
var shapes = map[string]string{
	"go.mod":   "module example.com/shapes\n\ngo 1.24\n",
	"shape.go": "package shapes\n\n// Shape has a size.\ntype Shape interface {\n\tSize() int\n}\n",
	"square.go": "package shapes\n\n// try 0\ntype Square struct{ Side int }\n\n" +
		"func (s Square) Size() int { return s.Side * s.Side }\n\nvar _ Shape = Square{}\n",
	"total.go":      "package shapes\n\nfunc Total(a, b Shape) int { return a.Size() + b.Size() }\n",
	"tsconfig.json": "{\"compilerOptions\":{\"strict\":true,\"noEmit\":true}}\n",
	"src/shape.ts":  "export interface Shape {\n  size(): number;\n}\n",
	"src/square.ts": "import { Shape } from \"./shape\";\n// try 0\nexport class Square implements Shape {\n" +
		"  constructor(private side: number) {}\n  size(): number { return this.side * this.side; }\n}\n",
	"src/total.ts": "import { Shape } from \"./shape\";\n" +
		"export function total(a: Shape, b: Shape): number { return a.size() + b.size(); }\n",
	"prompt.md":       "You rename.\n",
	".kaged/.gitkeep": "",
}

// renamer is a model that renames a method in two languages, makes both programs invalid, and fixes them. It reacts to
// its results: it edits a file again as long as the answer has no diagnostics of the server.
type renamer struct {
	next  int
	tries map[string]int // by edited file
	wrong string         // the first unexpected answer
}

// stage is one call and the text that its result must contain; touch is the file that is edited again as long as the
// result has no diagnostics.
type stage struct {
	tool, input, want, touch string
}

// edited returns a call that replaces a text.
func edited(path, from, to, want string) stage {
	return stage{"edit.text", edit(path, from, to), want, path}
}

func edit(path, from, to string) string {
	return fmt.Sprintf(`{"path":%q,"old_string":%q,"new_string":%q}`, path, from, to)
}

// renamed returns a call that renames the symbol of an interface's method, which occurs in three files.
func renamed(path string, line int, from, to string) stage {
	return stage{"code.lsp", fmt.Sprintf(`{"action":"rename","path":%q,"line":%d,"symbol":%q,"new_name":%q}`,
		path, line, from, to), `"files_changed":3`, ""}
}

var stages = []stage{
	{"code.lsp", `{"action":"diagnostics","path":"."}`, `"count":0`, ""},
	renamed("shape.go", 5, "Size", "Extent"),
	renamed("src/shape.ts", 2, "size", "extent"),
	edited("square.go", "Extent()", "Sise()", "missing method Extent"),
	edited("src/square.ts", "extent()", "sise()", "Property 'extent' is missing"),
	edited("square.go", "Sise()", "Extent()", `"diagnostics":[]`),
	edited("src/square.ts", "sise()", "extent()", `"diagnostics":[]`),
	{"code.lsp", `{"action":"diagnostics","path":"."}`, `"count":0`, ""},
}

func (m *renamer) answer(r *fakellm.Request) fakellm.Step {
	if results := r.Results(); answered(r) && len(results) > 0 {
		last, done := results[len(results)-1], stages[m.next]
		switch {
		case strings.Contains(last.Content, done.want):
			m.next++
		case done.touch != "" && !last.IsError && !strings.Contains(last.Content, `"diagnostics"`):
			tries := m.tries[done.touch]
			m.tries[done.touch]++
			from, to := fmt.Sprintf("// try %d\n", tries), fmt.Sprintf("// try %d\n", tries+1)
			return fakellm.Step{fakellm.Tool("edit.text", edit(done.touch, from, to))}
		default:
			m.wrong = fmt.Sprintf("%s %s answered %s, want %s", done.tool, done.input, last.Content,
				done.want)
			return fakellm.Step{fakellm.Say("I cannot go on.")}
		}
	}
	if m.next == len(stages) {
		return fakellm.Step{fakellm.Say("Renamed.")}
	}
	return fakellm.Step{fakellm.Tool(stages[m.next].tool, stages[m.next].input)}
}

// An agent renames a method of an interface in Go and in TypeScript, makes both programs invalid, reads the errors in
// the results of its edits, and fixes them: without a cage, and in one. Afterwards the programs build, and no process
// is left.
func TestAnAgentRenamesBreaksAndMends(t *testing.T) {
	t.Parallel()
	servers, err := filepath.Abs("../../bin/servers/node_modules")
	if err == nil {
		servers, err = filepath.EvalSymlinks(servers)
	}
	if err != nil {
		t.Fatal("language servers are missing; scripts/setup.sh test installs them: ", err)
	}
	for name, cage := range map[string]string{
		"uncaged": "disabled", "caged": `{fs: [{mode: rw, path: "project:/"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			model := &renamer{tries: map[string]int{}}
			llm.Handle(model.answer)
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+
				fmt.Sprintf("\n[lsp.servers.typescript]\nread = [%q]\n", servers))
			for i, kv := range w.Env {
				if path, ok := strings.CutPrefix(kv, "PATH="); ok {
					w.Env[i] = "PATH=" + filepath.Join(servers, ".bin") + ":" + path
				}
			}
			dir := filepath.Join(w.Dir, "shapes")
			for path, content := range shapes {
				kagedtest.Write(t, dir, path, content)
			}
			kagedtest.Write(t, dir, ".kaged/project.yaml", "version: 1\nproject: shapes\nprimary:\n"+
				"  model: smart-generalist\n  system_prompt: ./prompt.md\n  tools:\n    code.lsp: {enabled: true}\n"+
				"    edit.text: {enabled: true}\n    shell.bash: {enabled: true}\n  cage: "+cage+"\n")
			daemon := w.Up(t, databaseEnv(t))
			s := kagedtest.Open(t, w.SignIn(t), dir)
			if outcome := s.Run(t, "rename Size to Extent"); outcome != "completed" || model.next != len(stages) {
				t.Fatalf("the run %s at %d of %d: %s", outcome, model.next, len(stages), model.wrong)
			}
			for path, before := range shapes {
				want := strings.NewReplacer("Size", "Extent", "size", "extent").Replace(before)
				got := kagedtest.Read(t, dir, path)
				if path == "square.go" || path == "src/square.ts" {
					want, got = withoutTries(want), withoutTries(got)
				}
				if path != "shape.go" && got != want || path == "shape.go" && !strings.Contains(got, "Extent() int") {
					t.Errorf("%s is\n%s\nwant\n%s", path, got, want)
				}
			}
			tsc := filepath.Join(servers, ".bin", "tsc")
			for _, argv := range [][]string{{"go", "vet", "./..."}, {tsc, "-p", "."}} {
				cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %v\n%s", argv, err, out)
				}
			}
			daemon.Signal(syscall.SIGTERM)
			<-daemon.Done()
			if left := kagedtest.Running(t, dir); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

// withoutTries returns a file without the number of repeated edits.
func withoutTries(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "// try ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
