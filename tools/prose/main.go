// Command prose counts, per package, free relatives and indefinite pronouns in comments and lines over 120 columns,
// and compares them with prose/baseline.tsv (docs/STYLE.md). A count may only go down; a package without a row
// starts at the limits. With -update it writes the counts as the new baseline, and refuses to raise one.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits per 1,000 words of comment that a package without a baseline row may reach.
const (
	relativesLimit = 3.0
	pronounsLimit  = 2.0
	// minWords is the minimum number of words used for the rates of a package, because in a small package one word is no
	// trend.
	minWords = 500
	columns  = 120
)

var (
	word     = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	relative = regexp.MustCompile(`(?i)^(what|who|whose|whom|whatever|whoever|whichever)$`)
	pronoun  = regexp.MustCompile(`(?i)^(nobody|somebody|anybody|everybody|nothing|something|anything|none)$`)
)

// counts are the counts of one package.
type counts struct {
	words, relatives, pronouns, long int
}

func (c counts) rate(n int) float64 { return float64(n) * 1000 / float64(max(c.words, minWords)) }

func main() {
	update := flag.Bool("update", false, "write the baseline")
	baseline := flag.String("baseline", "tools/prose/baseline.tsv", "counts that must not grow")
	flag.Parse()
	if err := run(*baseline, *update); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(baseline string, update bool) error {
	found := map[string]counts{}
	files := bufio.NewScanner(os.Stdin) // the files to count, one per line
	for files.Scan() {
		if err := count(files.Text(), found); err != nil {
			return err
		}
	}
	if err := files.Err(); err != nil {
		return err
	}
	before, err := read(baseline)
	if err != nil {
		return err
	}
	var grown []string
	if before == nil && update {
		return write(baseline, found)
	}
	for pkg, c := range found {
		grown = append(grown, compare(pkg, c, before)...)
	}
	sort.Strings(grown)
	for _, g := range grown {
		fmt.Fprintln(os.Stderr, g)
	}
	if len(grown) > 0 {
		return fmt.Errorf("%d counts grew; see docs/STYLE.md", len(grown))
	}
	if update {
		return write(baseline, found)
	}
	return nil
}

// compare returns a line for each count of a package that is above both its limit and its baseline.
func compare(pkg string, c counts, before map[string]counts) (grown []string) {
	b, known := before[pkg]
	check := func(what string, got int, limit float64, was int) {
		allowed := limit
		if known {
			allowed = max(limit, b.rate(was))
		}
		// Shorter comments raise the rate of the remaining words, so a count that has not grown is no regression.
		if c.rate(got) > allowed && (!known || got > was) {
			grown = append(
				grown, fmt.Sprintf("%s: %.1f %s in 1,000 words of comment, at most %.1f", pkg, c.rate(got), what, allowed),
			)
		}
	}
	check("free relatives", c.relatives, relativesLimit, b.relatives)
	check("indefinite pronouns", c.pronouns, pronounsLimit, b.pronouns)
	if c.long > b.long {
		grown = append(grown, fmt.Sprintf("%s: %d lines over %d columns, at most %d", pkg, c.long, columns, b.long))
	}
	return grown
}

func count(file string, found map[string]counts) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pkg := filepath.ToSlash(filepath.Dir(file))
	c := found[pkg]
	for line := range strings.Lines(string(src)) {
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > columns { // a tab counts as one, as in lll
			c.long++
		}
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range parsed.Comments {
		for _, w := range word.FindAllString(group.Text(), -1) {
			c.words++
			if relative.MatchString(w) {
				c.relatives++
			}
			if pronoun.MatchString(w) {
				c.pronouns++
			}
		}
	}
	found[pkg] = c
	return nil
}

func read(file string) (map[string]counts, error) {
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rows := map[string]counts{}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.Split(line, "\t")
		if i == 0 {
			continue // the row of column names
		}
		if len(fields) != 5 {
			return nil, fmt.Errorf("%s:%d: %d columns, want 5", file, i+1, len(fields))
		}
		var n [4]int
		for j, f := range fields[1:] {
			if n[j], err = strconv.Atoi(f); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
		}
		rows[fields[0]] = counts{n[0], n[1], n[2], n[3]}
	}
	return rows, nil
}

func write(file string, found map[string]counts) error {
	var out strings.Builder
	fmt.Fprintln(&out, "package\twords\tfree_relatives\tindefinite_pronouns\tlines_over_120")
	pkgs := make([]string, 0, len(found))
	for pkg := range found {
		pkgs = append(pkgs, pkg)
	}
	sort.Strings(pkgs)
	for _, pkg := range pkgs {
		c := found[pkg]
		fmt.Fprintf(&out, "%s\t%d\t%d\t%d\t%d\n", pkg, c.words, c.relatives, c.pronouns, c.long)
	}
	return os.WriteFile(file, []byte(out.String()), 0o644)
}
