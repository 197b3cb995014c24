package changes

import (
	"context"
	"net/http"

	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/pkg/workspace/paths"
)

const MaxReaders = maxReaders

// CompareAll compares files with HEAD. ctx opens the repository, bounded limits the comparisons.
func CompareAll(ctx, bounded context.Context, root string, list ...string) (Found, error) {
	space, err := paths.Open(root, paths.Rules{})
	if err != nil {
		return Found{}, err
	}
	defer space.Close()
	user := ignore.LoadUser(func(string) (string, bool) { return "", false })
	h, err := openHead(ctx, root, user)
	if err != nil {
		return Found{}, err
	}
	defer h.repository.Close()
	l := &listing{Query: Query{Sniff: http.DetectContentType}, space: space, limit: listedDiff}
	l.compareAll(bounded, h, list)
	return l.found, nil
}
