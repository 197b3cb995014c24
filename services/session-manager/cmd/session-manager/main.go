// Command session-manager runs the session-manager service alone.
package main

import (
	"kaged.dev/pkg/host"
	sessionmanager "kaged.dev/services/session-manager"
)

func main() { host.Main(sessionmanager.Module) }
