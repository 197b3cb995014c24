// Command compare-ast-grep runs ast-grep's own command and kaged's structural search on the same files with the same
// patterns, and prints for each language how many results are equal. docs/reference/ast-grep.md has its use and the
// known differences.
//
//	compare-ast-grep -ast-grep PATH [flags] FOLDER...
//
// Patterns are those of the list compiled in, and with -random as many more for each language, made from the files
// themselves: a piece of code of which some parts are replaced by meta variables. With -rewrite each is rewritten, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"kaged.dev/pkg/syntax"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compare-ast-grep:", err)
		os.Exit(1)
	}
}

type options struct {
	tool    string
	lang    string
	files   int
	size    int64
	random  int
	seed    uint64
	rewrite bool
	verbose bool
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("compare-ast-grep", flag.ContinueOnError)
	flags.StringVar(&o.tool, "ast-grep", "ast-grep", "the ast-grep command")
	flags.StringVar(&o.lang, "lang", "", "only this language")
	flags.IntVar(&o.files, "files", 400, "at most so many files for each language")
	flags.Int64Var(&o.size, "size", 200<<10, "leave out larger files, in bytes")
	flags.IntVar(&o.random, "random", 0, "so many random patterns for each language")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the random patterns")
	flags.BoolVar(&o.rewrite, "rewrite", false, "compare rewrites as well")
	flags.BoolVar(&o.verbose, "v", false, "print each difference")
	if err := flags.Parse(args); err != nil {
		return err
	}
	trees, err := collect(flags.Args(), o)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 2, 4, 2, ' ', 0)
	defer out.Flush()
	fmt.Fprintln(out, "language\tfiles\tpatterns\tsame\tmatches\tdifferent\trefused, they find none\trefused, they "+
		"find some\tsame trees\tsame rewrites\tother white space\tother rewrites")
	for _, lang := range syntax.Languages() {
		if o.lang != "" && o.lang != lang.Name {
			continue
		}
		c, err := newComparison(ctx, lang, trees[lang.Name], o)
		if err != nil {
			return err
		}
		patterns := listed(lang.Name)
		random := rand.New(rand.NewPCG(o.seed, uint64(len(lang.Name))))
		for range o.random {
			if p := c.random(random); p != "" {
				patterns = append(patterns, pattern{text: p})
			}
		}
		for _, p := range patterns {
			if err := c.compare(ctx, p); err != nil {
				return err
			}
			if o.rewrite {
				if err := c.compareRewrite(ctx, p); err != nil {
					return err
				}
			}
		}
		trees, err := c.sameTrees(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%d\n", lang.Name, len(c.files), len(patterns), c.same,
			c.matches, len(c.different), c.refusedNone,
			c.refusedSome, trees, c.rewritten, c.rewrittenLayout, c.rewrittenOtherwise)
		if o.verbose {
			out.Flush()
			fmt.Println(strings.Join(c.different, ""))
		}
		c.close()
	}
	return ctx.Err()
}
