// Command tool-runner runs the tool-runner service alone; see package host for its flags.
package main

import (
	"kaged.dev/pkg/host"
	toolrunner "kaged.dev/services/tool-runner"
)

func main() { host.Main(toolrunner.Module) }
