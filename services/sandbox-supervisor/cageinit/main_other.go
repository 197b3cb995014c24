//go:build !linux

// Command cageinit is the first process of a cage. Cages need Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "cages need Linux")
	os.Exit(2)
}
