// Command kaged is a self-hosted control room for coding agents. Run `kaged --help`.
package main

import (
	"os"

	"kaged.dev/services/kaged"
	"kaged.dev/services/sandbox-supervisor/shim"
)

func main() {
	if shim.Invoked() {
		shim.Main()
	}
	os.Exit(kaged.Main())
}
