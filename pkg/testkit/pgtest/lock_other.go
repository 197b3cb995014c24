//go:build !unix

package pgtest

import (
	"errors"
	"os"
)

func lockSlot(string) (*os.File, bool, error) {
	return nil, false, errors.New("test databases need a unix system")
}
