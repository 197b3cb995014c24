package kit

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
)

// ProjectAt returns the id of the project that is registered for a folder.
func ProjectAt(ctx context.Context, c *client.Client, dir string) (string, error) {
	abs := Absolute(dir)
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		abs = resolved
	}
	id := ""
	err := Pages(ctx, c, "/api/v1/projects?limit=200", func(p struct{ ID, Path string }) error {
		if p.Path == abs {
			id = p.ID
		}
		return nil
	})
	if err == nil && id == "" {
		err = fault.New(fault.NotFound,
			"%s is not a registered project; run `kaged run` in it once, or name one with --project-id.", abs)
	}
	return id, err
}

// Pages calls each with every item of a list of the API.
func Pages[T any](ctx context.Context, c *client.Client, path string, each func(T) error) error {
	for cursor := ""; ; {
		var page struct {
			Items      []T
			NextCursor *string `json:"next_cursor"`
		}
		at := path
		if cursor != "" {
			at += "&cursor=" + url.QueryEscape(cursor)
		}
		if err := c.Do(ctx, http.MethodGet, at, nil, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := each(item); err != nil {
				return err
			}
		}
		if page.NextCursor == nil {
			return nil
		}
		cursor = *page.NextCursor
	}
}
