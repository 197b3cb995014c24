package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kaged.dev/pkg/syntax"
)

// bareParse is the time of tree-sitter's parser in C for all files of a language in the folders of a tree, with nothing
// else: no walk, no patterns, no result. A structural search cannot take less.
type bareParse struct{ wall, cpu time.Duration }

func parseBare(ctx context.Context, lang, tree string, folders []string) (cost bareParse, err error) {
	grammar := syntax.Lookup(lang)
	var texts [][]byte
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(tree, folder), func(path string, e fs.DirEntry, err error) error {
			extension := strings.TrimPrefix(filepath.Ext(path), ".")
			if err != nil || !e.Type().IsRegular() || !slices.Contains(grammar.Extensions, extension) {
				return err
			}
			text, err := os.ReadFile(path)
			texts = append(texts, text)
			return err
		})
		if err != nil {
			return cost, err
		}
	}
	if len(texts) == 0 {
		return cost, fmt.Errorf("no file of %s is in %s", lang, tree)
	}
	before, begun := ownCPU(), time.Now()
	var group errgroup.Group
	workers := runtime.NumCPU()
	for worker := range workers {
		group.Go(func() error {
			parser, err := syntax.NewParser()
			if err != nil {
				return err
			}
			defer parser.Close()
			for i := worker; i < len(texts); i += workers {
				// The limit of nodes ends the call after the parse.
				if _, err := parser.Parse(ctx, grammar, texts[i], 0); err != nil && !errors.Is(err, syntax.ErrTooLarge) {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return bareParse{time.Since(begun), ownCPU() - before}, err
}

// withFloors sets the floors of the searches in a language.
func (b bareParse) withFloors(figures []Figure, lang string) {
	for i, f := range figures {
		name, found := strings.CutPrefix(f.Name, "search.ast/"+lang+"/")
		switch {
		case found && strings.HasSuffix(name, "/wall"):
			figures[i].Floor = ms(b.wall)
		case found && strings.HasSuffix(name, "/cpu"):
			figures[i].Floor = ms(b.cpu)
		}
	}
}
