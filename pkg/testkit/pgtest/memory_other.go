//go:build !linux

package pgtest

// memoryFolder is empty where no file system in memory is known.
const memoryFolder = ""

func roomy(string) bool { return false }
