package tools_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/edit"
)

// A patch made from the differences of two random trees changes the first tree into the second.
func TestPatchOfADiffMakesTheTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	line := rapid.SampledFrom([]string{"one\n", "two\n", "three\n", "\n", "\tfour\n", "  five\n"})
	name := rapid.SampledFrom([]string{"a", "b", "d/c", "d/e/f", "new line\u00e9"})
	draw := func(t *rapid.T, label string) map[string]string {
		tree := map[string]string{}
		for _, n := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID[string]).Draw(t, label) {
			tree[n] = strings.Join(rapid.SliceOfN(line, 1, 20).Draw(t, n), "")
		}
		return tree
	}
	rapid.Check(t, func(t *rapid.T) {
		before, after := draw(t, "before"), draw(t, "after")
		entries, err := os.ReadDir(b.root)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(b.root, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		var sections []string
		for n, content := range before {
			b.write(n, content)
			b.read(n)
			target, stays := after[n]
			if !stays {
				sections = append(sections, "*** Delete File: "+n+"\n")
			} else if target != content {
				diff := edit.DiffTexts(n, content, target, 1<<20)
				sections = append(sections, "*** Update File: "+n+"\n"+diff[strings.Index(diff, "@@"):])
			}
		}
		for n, content := range after {
			if _, there := before[n]; !there {
				sections = append(sections, "*** Add File: "+n+"\n+"+
					strings.ReplaceAll(strings.TrimSuffix(content, "\n"), "\n", "\n+")+"\n")
			}
		}
		if len(sections) == 0 {
			return
		}
		sections = rapid.Permutation(sections).Draw(t, "order")
		o, err := b.do(b.t.Context(), "edit.patch", envelope(sections...))
		if err != nil || o.Fault != nil {
			t.Fatalf("%v %v by\n%s", err, o.Fault, strings.Join(sections, ""))
		}
		left := func() map[string]string {
			got := b.files()
			maps.DeleteFunc(got, func(_, v string) bool { return strings.HasPrefix(v, "d----") })
			return got
		}
		if got := left(); !maps.Equal(got, after) {
			t.Fatalf("made %v of %v, want %v", got, before, after)
		}
		// The writer of the files need not read them again, and the reverse patch restores the old tree.
		var back []string
		for n := range after {
			if content, was := before[n]; !was {
				back = append(back, "*** Delete File: "+n+"\n")
			} else if diff := edit.DiffTexts(n, after[n], content, 1<<20); diff != "" {
				back = append(back, "*** Update File: "+n+"\n"+diff[strings.Index(diff, "@@"):])
			}
		}
		for n, content := range before {
			if _, is := after[n]; !is {
				back = append(back, "*** Add File: "+n+"\n+"+strings.ReplaceAll(strings.TrimSuffix(content, "\n"), "\n", "\n+")+
					"\n")
			}
		}
		if o, err := b.do(b.t.Context(), "edit.patch", envelope(back...)); err != nil || o.Fault != nil {
			t.Fatalf("back: %v %v by\n%s", err, o.Fault, strings.Join(back, ""))
		}
		if got := left(); !maps.Equal(got, before) {
			t.Fatalf("back: made %v of %v, want %v", got, after, before)
		}
	})
}

// Any text sent as a patch is applied, or refused without a change. A patch never leaves the project.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		"*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** Add File: n/m\n+x\n*** Delete File: g\n*** End Patch",
		"*** Begin Patch\n*** Update File: f\n*** Move to: ../f\n*** End Patch",
		"*** Begin Patch\n*** Add File: l/x\n+\n*** End Patch",
		"*** Begin Patch\n*** Update File: l\n*** Move to: g\n@@ -1,1 +1,1 @@\n-a\n+b\n*** Update File: g\n*** Move to: " +
			"f/x\n*** End Patch",
	} {
		f.Add(seed)
	}
	b := newBench(f)
	outside := filepath.Join(filepath.Dir(b.root), "outside")
	if err := os.WriteFile(outside, []byte("safe"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b.t = t
		entries, _ := os.ReadDir(b.root)
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(b.root, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		b.write("f", "a\nb\nc\n")
		b.write("g", "a\r\n")
		b.link("../outside", "l")
		b.read("f")
		b.read("g")
		before := b.files()
		o, err := b.do(t.Context(), "edit.patch", in{"patch": text})
		if err != nil {
			t.Fatal(err)
		}
		if after := b.files(); o.Fault != nil && !maps.Equal(after, before) {
			t.Fatalf("%v, and yet %v became %v", o.Fault, before, after)
		}
		if data, err := os.ReadFile(outside); err != nil || string(data) != "safe" {
			t.Fatalf("outside holds %q, %v", data, err)
		}
	})
}
