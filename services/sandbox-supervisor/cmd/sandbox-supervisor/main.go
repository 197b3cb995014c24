// Command sandbox-supervisor runs the sandbox supervisor alone; `kaged up` runs all services.
package main

import (
	"kaged.dev/pkg/host"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	"kaged.dev/services/sandbox-supervisor/shim"
)

func main() {
	if shim.Invoked() {
		shim.Main()
	}
	host.Main(sandboxsupervisor.Module)
}
