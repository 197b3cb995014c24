package tools_test

import (
	"fmt"
	"strings"
	"testing"
)

// The cost of a patch with many hunks for one long file, and of a patch of many files. Each round reverts the previous
// round.
func BenchmarkEditPatch(b *testing.B) {
	for _, c := range []struct {
		name                string
		files, lines, every int
	}{
		{"100 hunks", 1, 30_000, 300},
		{"50 files", 50, 400, 130},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := newBench(b)
			there, back := "*** Begin Patch\n", "*** Begin Patch\n"
			for file := range c.files {
				name := fmt.Sprintf("src/d%d/f%d.go", file%5, file)
				f.write(name, sourceLines(file, c.lines))
				f.ok("file.read", in{"path": name, "limit": 1}, nil)
				there += "*** Update File: " + name + "\n" + patchHunks(file, c.lines, c.every, "", " // changed")
				back += "*** Update File: " + name + "\n" + patchHunks(file, c.lines, c.every, " // changed", "")
			}
			patches := []string{there + "*** End Patch\n", back + "*** End Patch\n"}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if o, err := f.do(b.Context(), "edit.patch", in{"patch": patches[i%2]}); err != nil || o.Fault != nil {
					b.Fatal(err, o.Fault)
				}
			}
		})
	}
}

func sourceLine(file, line int) string {
	return fmt.Sprintf("\tline%d_%d := compute(%d, %q)", file, line, line*7, "some text")
}

func sourceLines(file, lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintln(&b, sourceLine(file, i))
	}
	return b.String()
}

// patchHunks returns hunks that change the end of every line whose number is a multiple of every, from one text to
// another, with three lines of context.
func patchHunks(file, lines, every int, from, to string) string {
	var b strings.Builder
	for i := every - 1; i < lines; i += every {
		b.WriteString("@@\n")
		for l := max(0, i-3); l < min(lines, i+4); l++ {
			if l == i {
				fmt.Fprintf(&b, "-%s%s\n+%s%s\n", sourceLine(file, l), from, sourceLine(file, l), to)
				continue
			}
			fmt.Fprintf(&b, " %s\n", sourceLine(file, l))
		}
	}
	return b.String()
}
