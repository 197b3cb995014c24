//go:build !unix

package cage

import "kaged.dev/services/kaged/internal/workbench"

// passSignals yields no signal here; cages need Linux.
func passSignals() (names <-chan string, forget func()) { return nil, func() {} }

// passSizes yields no size here.
func passSizes(func() workbench.Size) (sizes <-chan workbench.Size, forget func()) {
	return nil, func() {}
}
