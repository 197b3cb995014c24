// Command harness runs the harness service alone; see package host for its flags.
package main

import (
	"kaged.dev/pkg/host"
	harness "kaged.dev/services/harness"
)

func main() { host.Main(harness.Module) }
