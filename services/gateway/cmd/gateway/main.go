// Command gateway runs the gateway alone.
package main

import (
	"kaged.dev/pkg/host"
	"kaged.dev/services/gateway"
)

func main() { host.Main(gateway.Module) }
