package toolrunner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
)

// The operator's tools are in the folder of local.toml unless another path is configured. Only a configured file must
// exist.
func TestReadToolsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	beside, elsewhere := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "elsewhere.yaml")
	configPath := filepath.Join(dir, "local.toml")
	for _, path := range []string{"", configPath} {
		if got, err := readToolsFile("", path); err != nil || got.Path != "" {
			t.Errorf("none: %+v %v", got, err)
		}
	}
	for _, path := range []string{beside, elsewhere} {
		if err := os.WriteFile(path, []byte("# "+path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readToolsFile("", configPath); err != nil || got.Path != beside || string(got.Content) != "# "+beside {
		t.Errorf("beside: %+v %v", got, err)
	}
	if got, err := readToolsFile(elsewhere, configPath); err != nil || got.Path != elsewhere {
		t.Errorf("elsewhere: %+v %v", got, err)
	}

	if err := os.Chmod(beside, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "gone.yaml"): "cannot be read", dir: "are no regular file", beside: "chmod o-w",
	} {
		if _, err := readToolsFile(path, configPath); !errors.Is(err, fault.LocalConfigInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
