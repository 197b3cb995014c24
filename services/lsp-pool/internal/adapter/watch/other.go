//go:build !linux

package watch

import "errors"

// newWatcher fails: files are compared.
func newWatcher(string) (watcher, error) { return nil, errors.ErrUnsupported }
