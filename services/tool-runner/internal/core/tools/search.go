package tools

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/walk"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// SearchLimits are the limits of the searches; sizes are in bytes.
type SearchLimits struct {
	// Workers is the number of goroutines of one search.
	Workers int
	// Timeout ends a search; the answer has the matches found until then.
	Timeout time.Duration
	// OutputBytes is the maximum size of the answer of search.grep, LineRunes the maximum number of characters of a shown
	// line.
	OutputBytes, LineRunes int
	// GlobFiles is the maximum number of files in the answer of search.glob.
	GlobFiles int
	// HideOutside leaves out matches of search.grep outside the caller's cage, instead of marking them.
	HideOutside bool
}

// walkOptions are the options of a walk from start.
func (d Deps) walkOptions(call *tool.Call, start paths.Path, want func(paths.Path, string) bool) walk.Options {
	top := call.Space.Root()
	if !paths.Below(start.Abs(), top) {
		top = start.Abs()
	}
	user := ignore.LoadUser(d.LookupEnv)
	// An agent can write its repository's configuration, but the configuration must not make kaged read a file that the
	// agent may not read itself.
	user.MayRead = func(real string) bool {
		_, err := call.Space.Resolve("core.excludesFile", real)
		return err == nil && call.Access.Allows(real, false)
	}
	return walk.Options{
		Workers: d.Limits.Search.Workers, Space: call.Space, Want: want, Rules: ignore.Start(top, start.Abs(), user),
	}
}

// ranOut reports whether a search ended because its time was over, which is an answer and not a failure.
func ranOut(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

// below returns a path relative to the folder of a search.
func below(start, path paths.Path, name string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path.Rel, start.Rel), "/")
	switch {
	case start.Rel == "." && path.Rel != ".":
		rel = path.Rel
	case path.Rel == start.Rel:
		return name
	}
	return rel + "/" + name
}

// includes returns a filter for file names by glob, nil for an empty glob. A glob without a slash matches the name
// alone.
func includes(field, glob string, start paths.Path) (func(paths.Path, string) bool, error) {
	if glob == "" {
		return nil, nil
	}
	glob = strings.TrimPrefix(glob, "./")
	if err := checkGlob(field, glob); err != nil {
		return nil, err
	}
	if !strings.Contains(glob, "/") {
		return func(_ paths.Path, name string) bool { return doublestar.MatchUnvalidated(glob, name) }, nil
	}
	return func(folder paths.Path, name string) bool {
		return doublestar.MatchUnvalidated(glob, below(start, folder, name))
	}, nil
}

// maxGlob is the maximum length of a glob in bytes, maxChoices the maximum number of patterns that its braces expand
// to. Each pattern is tried for each name.
const (
	maxGlob    = 1000
	maxChoices = 1000
)

func checkGlob(field, glob string) error {
	switch {
	case len(glob) > maxGlob || strings.ContainsRune(glob, 0):
		return fault.New(fault.InvalidParams, "The glob in %s is longer than %d bytes or holds a NUL.", field, maxGlob).
			With("field", field)
	case choices(glob) > maxChoices:
		return fault.New(fault.InvalidParams, "The braces of the glob in %s can be read in more than %d ways.", field,
			maxChoices).With("field", field)
	case !doublestar.ValidatePattern(glob):
		return fault.New(fault.InvalidParams, "The glob %q in %s is not valid: a bracket or brace is not closed.", glob,
			field).With("field", field)
	}
	return nil
}

// choices returns the number of patterns that the braces of a glob expand to, or any number above maxChoices.
func choices(glob string) int {
	total, open := 1, []int{}
	for _, c := range glob {
		switch last := len(open) - 1; {
		case c == '{':
			open = append(open, 1)
		case c == ',' && last >= 0:
			open[last]++
		case c == '}' && last >= 0:
			if total *= open[last]; total > maxChoices {
				return total
			}
			open = open[:last]
		}
	}
	return total
}

// notFolder returns the error of a search of a path that is no folder.
func notFolder(path paths.Path) error {
	if !path.Exists {
		return fault.New(fault.FileNotFound, "There is no folder at %s.", path.Show).With("path", path.Show)
	}
	return fault.New(fault.InvalidParams, "%s is not a folder.", path.Show).With("field", "path").With("path", path.Show)
}

// notThere returns the error of a missing path.
func notThere(path paths.Path) error {
	return path.Failure("searched", os.ErrNotExist)
}
