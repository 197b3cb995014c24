// Command dap-pool runs the pool of debug sessions alone; `kaged up` runs all services.
package main

import (
	"kaged.dev/pkg/host"
	dappool "kaged.dev/services/dap-pool"
)

func main() { host.Main(dappool.Module) }
