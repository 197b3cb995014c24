package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/syntax"
)

// comparison compares the two for one language.
type comparison struct {
	options options
	lang    *syntax.Language
	files   []file
	parser  *syntax.Parser

	same, matches, refusedNone, refusedSome int
	// rewritten counts equal rewrites, rewrittenLayout those that differ only in white space.
	rewritten, rewrittenLayout, rewrittenOtherwise int
	different                                      []string
}

func newComparison(_ context.Context, lang *syntax.Language, files []file, o options) (*comparison, error) {
	parser, err := syntax.NewParser()
	return &comparison{options: o, lang: lang, files: files, parser: parser}, err
}

func (c *comparison) close() { c.parser.Close() }

// compare runs one pattern through both.
func (c *comparison) compare(ctx context.Context, p pattern) error {
	if len(c.files) == 0 {
		return nil
	}
	theirs, theirError, err := c.theirs(ctx, p)
	if err != nil {
		return err
	}
	ours, err := c.ours(ctx, p)
	var refused *astgrep.PatternError
	switch {
	case errors.As(err, &refused) && len(theirs) == 0:
		c.refusedNone++
		if theirError {
			c.same++
		}
		return nil
	case errors.As(err, &refused):
		c.refusedSome++
		c.different = append(
			c.different, fmt.Sprintf("  refused %q, they find %d, e.g. %q\n      %v\n", p.text, len(theirs), theirs[0], err),
		)
		return nil
	case err != nil:
		return err
	}
	c.matches += len(theirs)
	slices.Sort(ours)
	slices.Sort(theirs)
	if slices.Equal(ours, theirs) {
		c.same++
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  %q: ours %d, theirs %d\n", p.text, len(ours), len(theirs))
	show(&b, "only ours", ours, theirs)
	show(&b, "only theirs", theirs, ours)
	c.different = append(c.different, b.String())
	return nil
}

// show prints some entries of a list that are not in the other one; both are sorted.
func show(b *strings.Builder, title string, list, other []string) {
	const most = 2
	shown := 0
	for _, m := range list {
		if shown == most {
			return
		}
		if _, both := slices.BinarySearch(other, m); !both {
			fmt.Fprintf(b, "      %s: %.400s\n", title, m)
			shown++
		}
	}
}

// found returns a match as a text for comparison.
func found(path string, text []byte, start, end int, captures map[string]string) string {
	names := make([]string, 0, len(captures))
	for name := range captures {
		names = append(names, name)
	}
	slices.Sort(names)
	s := fmt.Sprintf("%s %d-%d %q", path, start, end, text)
	for _, name := range names {
		s += fmt.Sprintf(" %s=%q", name, captures[name])
	}
	return s
}

func (c *comparison) ours(ctx context.Context, p pattern) ([]string, error) {
	compiled, err := astgrep.Compile(ctx, c.parser, c.lang, p.text)
	if err != nil {
		return nil, err
	}
	names := compiled.Names()
	var list []string
	for _, f := range c.files {
		if !compiled.Possible(f.text) {
			continue
		}
		tree, err := c.parser.Parse(ctx, c.lang, f.text, 1<<22)
		if err != nil {
			return nil, err
		}
		err = compiled.Find(ctx, &tree, true, func(m astgrep.Match) bool {
			n := &tree.Nodes[m.Node]
			captures := map[string]string{}
			for i, name := range names {
				if have := m.Captures[i]; have.First >= 0 {
					start, end := tree.Span(have.First, have.Count)
					captures[name] = string(f.text[start:end])
				}
			}
			list = append(list, found(f.path, tree.Source(m.Node), int(n.Start), min(int(n.End), len(f.text)), captures))
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// place is a piece of text in ast-grep's JSON.
type place struct {
	Text  string
	Range struct{ ByteOffset struct{ Start, End int } }
}

// match is a match in ast-grep's JSON.
type match struct {
	place
	File, Replacement string
	MetaVariables     struct {
		Single map[string]place
		Multi  map[string][]place
	}
}

// search runs a search with ast-grep; refused is true if ast-grep refuses the pattern.
func (c *comparison) search(ctx context.Context, p pattern, more ...string) (list []match, refused bool, err error) {
	args := append([]string{
		"run", "--pattern=" + p.text, "--lang", c.lang.Name, "--json=stream", "--threads", "2",
	}, more...)
	for _, ignore := range []string{"hidden", "vcs", "dot", "parent", "global", "exclude"} {
		args = append(args, "--no-ignore", ignore)
	}
	args = append(args, "--")
	for _, f := range c.files {
		args = append(args, f.path)
	}
	out, errText, err := c.call(ctx, args)
	if err != nil {
		return nil, false, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var m match
		if err := decoder.Decode(&m); err != nil {
			return nil, false, err
		}
		list = append(list, m)
	}
	return list, strings.Contains(errText, "Cannot parse query"), nil
}

func (c *comparison) theirs(ctx context.Context, p pattern) (list []string, refused bool, err error) {
	matches, refused, err := c.search(ctx, p)
	if err != nil {
		return nil, false, err
	}
	texts := map[string][]byte{}
	for _, f := range c.files {
		texts[f.path] = f.text
	}
	for _, m := range matches {
		captures := map[string]string{}
		for name, nodes := range m.MetaVariables.Multi {
			captures[name] = ""
			if len(nodes) > 0 {
				captures[name] = string(texts[m.File][nodes[0].Range.ByteOffset.Start:nodes[len(nodes)-1].Range.ByteOffset.End])
			}
		}
		for name, node := range m.MetaVariables.Single {
			captures[name] = node.Text
		}
		offset := m.Range.ByteOffset
		list = append(list, found(m.File, []byte(m.Text), offset.Start, offset.End, captures))
	}
	return list, refused, nil
}

// call runs ast-grep. An empty result is no failure.
func (c *comparison) call(ctx context.Context, args []string) (out []byte, errText string, err error) {
	cmd := exec.CommandContext(ctx, c.options.tool, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err = cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return out, stderr.String(), err
}

var cstLine = regexp.MustCompile(`^ *(?:[a-zA-Z_]+: )?([a-zA-Z_]+) (\(\d+,\d+\)-\(\d+,\d+\))$`)

// tree returns ast-grep's outline of a file.
func (c *comparison) tree(ctx context.Context, f file) (string, error) {
	out, errText, err := c.call(ctx, []string{
		"run", "--pattern=" + string(f.text), "--lang", c.lang.Name, "--debug-query=ast", "/dev/null",
	})
	if err != nil {
		return "", err
	}
	var lines []string
	for _, line := range strings.Split(string(out)+errText, "\n") {
		if m := cstLine.FindStringSubmatch(line); m != nil {
			lines = append(lines, m[1]+" "+m[2])
		}
	}
	return strings.Join(lines, "\n"), nil
}
