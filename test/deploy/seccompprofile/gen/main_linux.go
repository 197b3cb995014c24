// Command gen writes the seccomp profile of the workspace's container to the file that is its argument.
package main

import (
	"fmt"
	"os"

	"kaged.dev/test/deploy/seccompprofile"
)

func main() {
	data, err := seccompprofile.JSON()
	if err == nil {
		err = os.WriteFile(os.Args[1], data, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seccomp profile:", err)
		os.Exit(1)
	}
}
