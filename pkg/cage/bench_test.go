package cage_test

import (
	"fmt"
	"testing"

	"kaged.dev/pkg/cage"
)

// BenchmarkCompile measures the compilation of three policies: one of few paths, one of a whole project with its
// protected paths, and one of a tree with more folders than the search limit.
func BenchmarkCompile(b *testing.B) {
	project := []string{
		".kaged/project.yaml", ".git/HEAD", ".git/config", ".git/hooks/x", ".git/objects/", ".git/refs/", "src/a/b/", "docs/",
		"out/",
	}
	large := project
	for i := range 2000 {
		large = append(large, fmt.Sprintf("tree/%d/%d/", i/50, i))
	}
	for _, c := range []struct {
		name   string
		root   string
		mounts []string
	}{
		{"read", plant(b, project...), []string{"ro ./src", "ro ./docs", "ro /usr"}},
		{"folder", plant(b, project...), []string{"ro ./src", "rw ./out"}},
		{"project", plant(b, project...), []string{"rw ."}},
		{"large", plant(b, large...), []string{"rw ."}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := cage.Compile(policy(c.mounts...), c.root); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
