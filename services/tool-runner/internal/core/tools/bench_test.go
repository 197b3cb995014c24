package tools_test

import (
	"strings"
	"testing"
)

// The cost of one call, with all parts of core.
func BenchmarkTools(b *testing.B) {
	f := newBench(b)
	f.write("src/small.go", strings.Repeat("a line of some length, as they are\n", 100))
	f.write("src/edit.go", strings.Repeat("unchanged\n", 100)+"A")
	f.ok("file.read", in{"path": "src/edit.go"}, nil)
	run := func(name string, params func(i int) in) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if o, err := f.do(b.Context(), name, params(i)); err != nil || o.Fault != nil {
					b.Fatal(err, o.Fault)
				}
			}
		})
	}
	run("file.read", func(int) in { return in{"path": "./src/small.go"} })
	run("file.list", func(int) in { return in{"path": "./src"} })
	run("file.write", func(i int) in { return in{"path": "./src/new.go", "content": strings.Repeat("x\n", 100+i%2)} })
	run("edit.text", func(i int) in {
		old, new := "A", "B"
		if i%2 == 1 {
			old, new = new, old
		}
		return in{"path": "./src/edit.go", "old_string": old, "new_string": new}
	})
	run("search.glob", func(int) in { return in{"pattern": "**/*.go"} })
	run("search.grep", func(int) in { return in{"pattern": "unchanged"} })
	run("shell.bash", func(int) in { return in{"command": ":"} })
}
