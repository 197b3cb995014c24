//go:build !linux

package watch

import "errors"

// newWatcher fails, so that files are compared.
func newWatcher(string) (watcher, error) { return nil, errors.ErrUnsupported }
