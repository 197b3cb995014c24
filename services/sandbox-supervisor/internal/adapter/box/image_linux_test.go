package box_test

import (
	"os"
	"strconv"
	"testing"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// A process that inherits a descriptor with a number near the image's executes the image.
func TestImageBesideInheritedDescriptors(t *testing.T) {
	t.Parallel()
	image, err := box.Program()
	if err != nil {
		t.Fatal(err)
	}
	own := int(image.Fd())
	var low, files []*os.File
	for reached := false; !reached; {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		switch n := int(f.Fd()); {
		case len(low) < 4:
			low = append(low, f)
		default:
			files = append(files, f)
			reached = n > own+8
		}
	}
	for _, f := range low { // a start's own pipe gets the lowest numbers
		f.Close()
	}
	for _, f := range files {
		p, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(own), []string{"kaged-hold", blueprint.ArgHold},
			&os.ProcAttr{Env: []string{}, Files: []*os.File{f, f, f}})
		if err != nil {
			t.Fatalf("descriptor %d inherited, the image at %d: %v", f.Fd(), own, err)
		}
		_ = p.Kill()
		_, _ = p.Wait()
	}
}
