// Command issue runs the issue service alone.
package main

import (
	"kaged.dev/pkg/host"
	"kaged.dev/services/issue"
)

func main() { host.Main(issue.Module) }
