//go:build !unix

package cage

// passSignals yields no signal, because cages need Linux.
func passSignals() (names <-chan string, forget func()) { return nil, func() {} }
