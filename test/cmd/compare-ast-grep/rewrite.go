package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kaged.dev/pkg/astgrep"
)

// template returns a replacement of several lines that uses all variables of a pattern.
func template(p *astgrep.Pattern) string {
	var b strings.Builder
	b.WriteString("rewritten(")
	for _, name := range p.Variables() {
		b.WriteString("\n  " + name + ",")
	}
	return b.String() + "\n)"
}

// compareRewrite compares both replacements of each match.
func (c *comparison) compareRewrite(ctx context.Context, p pattern) error {
	compiled, err := astgrep.Compile(ctx, c.parser, c.lang, p.text)
	var refused *astgrep.PatternError
	if errors.As(err, &refused) {
		return nil
	}
	if err != nil {
		return err
	}
	replacement := template(compiled)
	rule, err := astgrep.NewRule(compiled, replacement)
	if err != nil {
		return err
	}
	theirs, err := c.theirRewrites(ctx, p, replacement)
	if err != nil {
		return err
	}
	for _, f := range c.files {
		if !compiled.Possible(f.text) {
			continue
		}
		tree, err := c.parser.Parse(ctx, c.lang, f.text, 1<<22)
		if err != nil {
			return err
		}
		edits, err := astgrep.Rewrite(ctx, &tree, []*astgrep.Rule{rule}, 1<<30)
		if err != nil {
			return err
		}
		for _, e := range edits {
			text, ok := theirs[fmt.Sprintf("%s %d-%d", f.path, e.Start, e.End)]
			switch {
			case !ok:
			case text == e.Text:
				c.rewritten++
			case strings.Join(strings.Fields(text), "") == strings.Join(strings.Fields(e.Text), ""):
				c.rewrittenLayout++
			default:
				c.rewrittenOtherwise++
				c.different = append(
					c.different, fmt.Sprintf("  rewrite of %q in %s at %d\n      ours   %.300q\n      theirs %.300q\n", p.text, f.path,
						e.Start, e.Text, text),
				)
			}
		}
	}
	return nil
}

// theirRewrites returns ast-grep's replacement of each match, by file and position.
func (c *comparison) theirRewrites(ctx context.Context, p pattern, replacement string) (map[string]string, error) {
	matches, _, err := c.search(ctx, p, "--rewrite="+replacement)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, m := range matches {
		at := m.Range.ByteOffset
		texts[fmt.Sprintf("%s %d-%d", m.File, at.Start, at.End)] = m.Replacement
	}
	return texts, nil
}
