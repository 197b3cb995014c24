package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
)

// The size of the tree of a million files. Its files are hard links to a few, so that the tree is quick to create and
// to remove; a search has to open and read each file nevertheless.
const (
	millionFolders = 10_000
	filesInFolder  = 100
	originals      = 20 // one file can have at most 65,000 names on ext4
	millionRounds  = 2
)

// measureMillion measures one search of each kind in a tree of a million files, and the memory for it.
func measureMillion(ctx context.Context, w *world) ([]Figure, error) {
	tree := filepath.Join(w.dir, "million")
	defer os.RemoveAll(tree)
	if err := makeMillion(ctx, tree); err != nil {
		return nil, err
	}
	fd, rg := w.findPeer(ctx, "fd", "fd", "fdfind"), w.findPeer(ctx, "ripgrep", "rg")
	const pattern = "timeout deadline cancel"
	contests := []contest{
		globAgainst("million/glob/fd", tree, "f7?.txt", fd, fdArgs("f7?.txt")),
		globAgainst("million/glob-all/rg", tree, "*", rg, filesArgs),
		{
			name: "million/grep", project: tree, tool: "search.grep", params: grepParams{pattern, "", "files_with_matches"},
			peer: rg,
			args: append(slices.Clone(ripgrep), "--files-with-matches", "--null", "-e", pattern, "./"), same: sameNames,
		},
	}
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) {
		var figures []Figure
		for _, c := range contests {
			c.rounds = millionRounds
			if err := r.resetPeak(); err != nil {
				return figures, err
			}
			got, err := r.hold(ctx, w, c)
			if err != nil {
				return figures, err
			}
			peak, err := r.memory("VmHWM")
			if err != nil {
				return figures, err
			}
			figures = append(figures, got...)
			figures = append(figures, Figure{Name: c.name + "/peak-memory", Value: mb(peak), Unit: "MB", Target: 200})
		}
		return figures, nil
	})
}

func makeMillion(ctx context.Context, tree string) error {
	if err := os.MkdirAll(filepath.Join(tree, "originals"), 0o755); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(3, 3))
	names := make([]string, originals)
	for i := range names {
		names[i] = filepath.Join(tree, "originals", fmt.Sprintf("o%02d.txt", i))
		if err := os.WriteFile(names[i], prose(random, 400), 0o644); err != nil {
			return err
		}
	}
	var group errgroup.Group
	group.SetLimit(callWorkers)
	for i := range millionFolders {
		if ctx.Err() != nil {
			return errors.Join(group.Wait(), ctx.Err())
		}
		group.Go(func() error {
			folder := filepath.Join(tree, fmt.Sprintf("a%02d", i/100), fmt.Sprintf("b%02d", i%100))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			for j := range filesInFolder {
				if err := os.Link(names[(i+j)%originals], filepath.Join(folder, fmt.Sprintf("f%02d.txt", j))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return repository(ctx, tree, "*.log\n")
}
