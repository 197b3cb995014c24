package scaffold_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/scaffold"
)

// A new project has its three files, with a slug derived from its folder's name.
func TestWrite(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"My Tool": "my-tool", "--": "project", "Ünïcode 9": "n-code-9", strings.Repeat("a", 80): strings.Repeat("a", 63),
	} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		made, err := scaffold.Write(scaffold.Project{Dir: dir})
		if err != nil || made.Slug != want {
			t.Errorf("%q became %q, %v", name, made.Slug, err)
		}
		if !slices.Equal(made.Written, []string{".kaged/project.yaml", ".kaged/prompts/primary.md", ".kaged/.gitignore"}) {
			t.Errorf("wrote %v", made.Written)
		}
	}
}

// The written project compiles for any name of the folder.
func TestWhatIsWrittenCompiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"plain", "2024", "1e3", "0x1f", "null", "true", "No", "---", strings.Repeat("long", 40),
	} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		made, err := scaffold.Write(scaffold.Project{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var files []dsl.File
		for _, path := range append(made.Written, ".kaged/project.local.yaml", dsl.InstructionsPath) {
			data, err := os.ReadFile(filepath.Join(dir, path))
			files = append(files, dsl.File{Path: path, Present: err == nil, Content: data})
		}
		got := dsl.Parse(files)
		if got.Project == nil || got.Project.Slug != made.Slug || got.Failed() {
			t.Errorf("in %q: %v", name, got.Diagnostics)
		}
	}
}

// All existing files are kept unless they are to be replaced. Links do not lead out of the folder.
func TestWriteIsCareful(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	prompt := filepath.Join(dir, ".kaged", "prompts", "primary.md")
	if err := os.MkdirAll(filepath.Dir(prompt), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prompt, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if made, err := scaffold.Write(scaffold.Project{Dir: dir, Slug: "x"}); !errors.Is(err, fault.FileExists) ||
		len(made.Written) > 0 {
		t.Errorf("wrote %v, %v", made.Written, err)
	}
	made, err := scaffold.Write(scaffold.Project{Dir: dir})
	if err != nil || !slices.Equal(made.Kept, []string{".kaged/prompts/primary.md"}) || len(made.Written) != 2 {
		t.Errorf("made %+v, %v", made, err)
	}
	if data, _ := os.ReadFile(prompt); string(data) != "mine" {
		t.Errorf("the prompt became %q", data)
	}
	if _, err := scaffold.Write(scaffold.Project{Dir: dir, Slug: "x", Force: true}); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(prompt); !strings.Contains(string(data), "coding agent of the project x") {
		t.Errorf("the prompt is %q", data)
	}
	out := t.TempDir()
	linked := t.TempDir()
	if err := os.Symlink(out, filepath.Join(linked, ".kaged")); err != nil {
		t.Fatal(err)
	}
	if _, err := scaffold.Write(scaffold.Project{Dir: linked, Slug: "x", Force: true}); err == nil {
		t.Error("a link led out of the folder")
	}
	if entries, _ := os.ReadDir(out); len(entries) > 0 {
		t.Errorf("written outside: %v", entries)
	}
	for _, bad := range []string{strings.Repeat("a", 64), "Upper", "-x", "x-", "a/b", "a b"} {
		if _, err := scaffold.Write(scaffold.Project{Dir: t.TempDir(), Slug: bad}); !errors.Is(err, fault.ValidationFailed) {
			t.Errorf("slug %q: %v", bad, err)
		}
	}
}

// The first available provider gets the unbound aliases; its key stays in the environment.
func TestBind(t *testing.T) {
	t.Parallel()
	ollama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/tags" {
			w.Write([]byte(`{"models":[{"name":"qwen3:8b"},{"name":"other"}]}`))
		}
	}))
	t.Cleanup(ollama.Close)
	for name, c := range map[string]struct {
		env      map[string]string
		provider string
		target   string
	}{
		"anthropic": {
			map[string]string{"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic", "anthropic:claude-",
		},
		"openai":       {map[string]string{"OPENAI_API_KEY": "k"}, "openai", "openai:gpt-"},
		"gemini":       {map[string]string{"GEMINI_API_KEY": "k"}, "gemini", "gemini:gemini-"},
		"ollama":       {map[string]string{"OLLAMA_HOST": ollama.URL}, "ollama", "ollama:qwen3:8b"},
		"none":         {map[string]string{"OLLAMA_HOST": "127.0.0.1:1"}, "", ""},
		"no such host": {map[string]string{"OLLAMA_HOST": "%%%"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "kaged", "local.toml")
			b, err := scaffold.Bind(t.Context(), path, func(k string) string { return c.env[k] })
			if err != nil || b.Provider != c.provider {
				t.Fatalf("bound %+v, %v", b, err)
			}
			f, err := config.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.provider == "" {
				if len(f.Models) > 0 {
					t.Errorf("bound %v", f.Models)
				}
				return
			}
			if got := f.Models[scaffold.DefaultAlias]; len(got) != 1 || !strings.HasPrefix(got[0], c.target) {
				t.Errorf("%s is %v", scaffold.DefaultAlias, got)
			}
			if d := f.Providers[c.provider].Driver; c.provider == "gemini" && d != "google" {
				t.Errorf("Gemini is spoken to in the format of %q", d)
			}
			if key := f.Providers[c.provider].APIKey; b.Variable != "" && key != "${"+b.Variable+"}" {
				t.Errorf("the key is stored as %q", key)
			}
			if again, err := scaffold.Bind(t.Context(), path, func(k string) string { return c.env[k] }); err != nil ||
				len(again.Aliases) > 0 {
				t.Errorf("a second time bound %v, %v", again.Aliases, err)
			}
		})
	}
}

// An unreadable configuration is refused before any change.
func TestBindRefusesABrokenConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "local.toml")
	if err := os.WriteFile(path, []byte("[models\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scaffold.Bind(t.Context(), path, func(string) string { return "k" }); !errors.Is(err, fault.BadRequest) {
		t.Errorf("Bind = %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "[models\n" {
		t.Errorf("the file became %q", data)
	}
}

// Every policy of examples/cages is valid.
func TestTheExampleCagesAreValid(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../../examples/cages/*.yaml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		if policy, diagnostics := dsl.ParseCage(path, []byte(readFile(t, path))); policy == nil || len(diagnostics) > 0 {
			t.Errorf("%s: %v", path, diagnostics)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
