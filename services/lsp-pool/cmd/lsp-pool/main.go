// Command lsp-pool runs the pool of language servers alone; `kaged up` runs all services.
package main

import (
	"kaged.dev/pkg/host"
	lsppool "kaged.dev/services/lsp-pool"
)

func main() { host.Main(lsppool.Module) }
