package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/syntax"
)

// file is a source file for both programs.
type file struct {
	path string
	text []byte
}

// collect reads the files below the folders by language, at regular intervals if there are too many.
func collect(folders []string, o options) (map[string][]file, error) {
	names := map[string][]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			lang := syntax.Of(path)
			info, err := e.Info()
			if err == nil && lang != nil && info.Size() <= o.size && info.Size() > 0 && (o.lang == "" || o.lang == lang.Name) {
				names[lang.Name] = append(names[lang.Name], path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	files := map[string][]file{}
	for lang, list := range names {
		step := max(1, len(list)/o.files)
		for i := 0; i < len(list) && len(files[lang]) < o.files; i += step {
			text, err := os.ReadFile(list[i])
			if err != nil {
				return nil, err
			}
			if utf8.Valid(text) {
				files[lang] = append(files[lang], file{list[i], text})
			}
		}
	}
	return files, nil
}

// random returns a pattern made from a piece of a random file, with some parts replaced by meta variables.
func (c *comparison) random(r *rand.Rand) string {
	const longest, attempts = 160, 50
	for range attempts {
		if len(c.files) == 0 {
			return ""
		}
		f := c.files[r.IntN(len(c.files))]
		tree, err := c.parser.Parse(context.Background(), c.lang, f.text, 1<<22)
		if err != nil || len(tree.Nodes) < 3 {
			continue
		}
		i := 1 + r.IntN(len(tree.Nodes)-1)
		text := tree.Source(i)
		if !tree.Nodes[i].Is(syntax.Named) || !tree.Nodes[i].Is(syntax.NamedChild) || len(text) > longest ||
			bytes.Count(text, []byte("\n")) > 6 {
			continue
		}
		return c.generalise(r, &tree, i)
	}
	return ""
}

// generalise replaces some nodes below the i-th node by meta variables.
func (c *comparison) generalise(r *rand.Rand, tree *syntax.Tree, i int) string {
	var b strings.Builder
	at, letter := tree.Nodes[i].Start, 'A'
	seen := map[string]string{}
	for n := i + 1; n < int(tree.Nodes[i].Next); {
		node := &tree.Nodes[n]
		if !node.Is(syntax.Named) || node.Start < at || r.IntN(3) > 0 || letter > 'F' || node.End == node.Start {
			n++
			continue
		}
		b.Write(tree.Text[at:node.Start])
		text := string(tree.Source(n))
		name := seen[text]
		if name == "" {
			dollars := []string{"$", "$", "$", "$", "$$", "$$$"}[r.IntN(6)]
			if name = dollars + string(letter); r.IntN(8) == 0 {
				name = dollars + "_"
			}
			letter++
			seen[text] = name
		}
		b.WriteString(name)
		at, n = node.End, int(node.Next)
	}
	b.Write(tree.Text[min(at, tree.Nodes[i].End):tree.Nodes[i].End])
	return b.String()
}

// sameTrees returns the number of files with the same tree in both programs.
func (c *comparison) sameTrees(ctx context.Context) (string, error) {
	const most = 40
	same, all := 0, 0
	step := max(1, len(c.files)/most)
	for i := 0; i < len(c.files) && all < most; i += step {
		f := c.files[i]
		// ast-grep preprocesses every text as a pattern.
		if len(f.text) > 20<<10 || bytes.ContainsRune(f.text, '$') {
			continue
		}
		theirs, err := c.tree(ctx, f)
		if err != nil {
			return "", err
		}
		tree, err := c.parser.Parse(ctx, c.lang, f.text, 1<<22)
		if err != nil {
			return "", err
		}
		if ours := outline(&tree); ours == theirs {
			same++
		} else if c.options.verbose {
			c.different = append(c.different, fmt.Sprintf("  tree of %s: %s\n", f.path, firstDifference(ours, theirs)))
		}
		all++
	}
	return fmt.Sprintf("%d of %d", same, all), nil
}

// outline returns the kinds of the named nodes of a tree in preorder with their positions.
func outline(tree *syntax.Tree) string {
	var lines []string
	for i := range tree.Nodes {
		n := &tree.Nodes[i]
		if n.Is(syntax.Named) && !n.Is(syntax.Missing) {
			lines = append(lines, tree.Language.Kind(n.Symbol)+" "+point(tree.Text, n.Start)+"-"+point(tree.Text, n.End))
		}
	}
	return strings.Join(lines, "\n")
}

func point(text []byte, offset uint32) string {
	before := text[:min(int(offset), len(text))]
	return fmt.Sprintf("(%d,%d)", bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')-1)
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	i := 0
	for i < min(len(x), len(y)) && x[i] == y[i] {
		i++
	}
	return fmt.Sprintf("ours %q, theirs %q", slices.Concat(x, []string{""})[i], slices.Concat(y, []string{""})[i])
}
