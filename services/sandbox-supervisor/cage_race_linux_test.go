package sandboxsupervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// A granted folder alternates between a folder and a link out of the project while cages are made: a cage shows the
// folder or is refused, and never follows the link (CVE-2021-30465).
func TestSwappedWhileMakingCages(t *testing.T) {
	t.Parallel()
	client, root, outside := serve(t, nil), project(t), t.TempDir()
	inner, aside := filepath.Join(root, "work", "way", "inner"), filepath.Join(root, "work", "aside")
	for path, text := range map[string]string{
		filepath.Join(inner, "file"): "granted", filepath.Join(outside, "inner", "file"): "secret",
		filepath.Join(outside, "file"): "secret",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; !stop.Load(); i++ {
			// In turns the folder itself and its parent.
			path, to := inner, outside
			if i%2 == 1 {
				path = filepath.Dir(inner)
			}
			err := os.Rename(path, aside)
			if err == nil {
				err = errors.Join(os.Symlink(to, path), os.Remove(path), os.Rename(aside, path))
			}
			if err != nil {
				t.Error(err)
				return
			}
			for range i * 7919 % 5000 { // it stays a folder for a varying time
				_, _ = os.Lstat(inner)
			}
		}
	})
	policy := grantsWork()
	policy.Fs = []*commonv1.CageMount{{Mode: "rw", Path: "./" + filepath.Join("work", "way", "inner")}}
	made, refused := 0, 0
	for made+refused < 60 || (made == 0 || refused == 0) && made+refused < 1000 {
		start := shell(t, "cat "+inner+"/file "+outside+"/file; true", pipes, inCage(root, policy))
		start.Cwd = "/"
		var said strings.Builder
		exit, err := caged(client, start, func(text []byte) { said.Write(text) })
		switch {
		case errors.Is(err, fault.CagePolicyInvalid):
			refused++
		case err != nil || exit.GetExitCode() != 0:
			t.Fatalf("%v, %v", exit, err)
		default:
			made++
		}
		if strings.Contains(said.String(), "secret") {
			t.Fatalf("a cage showed %q", said.String())
		}
	}
	stop.Store(true)
	swapping.Wait()
	if made == 0 || refused == 0 {
		t.Errorf("%d cages were made and %d refused, which proves nothing", made, refused)
	}
}
