//go:build !unix

package cage

import "kaged.dev/services/kaged/internal/workbench"

// passSignals yields nothing here; cages need Linux.
func passSignals() (names <-chan string, forget func()) { return nil, func() {} }

// passSizes yields nothing here.
func passSizes(func() workbench.Size) (sizes <-chan workbench.Size, forget func()) {
	return nil, func() {}
}
