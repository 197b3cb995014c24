//go:build !unix

package pgtest

import "errors"

func lockSlot(string) (bool, error) {
	return false, errors.New("test databases need a unix system")
}
