package cage

import (
	"net/netip"

	"kaged.dev/pkg/dsl"
)

// View is a policy made real for one project.
type View struct {
	// Root is the project's folder: absolute, clean, without links.
	Root string
	// Grants are the paths that can be seen, those above before those in them, no path twice. Of the grants a path lies in
	// the deepest decides; a path that lies in none cannot be seen. Besides them a box shows a read-only system and has
	// private folders of its own, which are not the project's and no grants.
	Grants []Grant
	// Net are the rules of what can be reached, none for no network.
	Net []Rule
	// Relaxed allows the system calls that debuggers need.
	Relaxed bool
	// Capabilities are named rights, such as shell.
	Capabilities []string
	// Persistent keeps what is written in the box's own folders for the agent's next invocation.
	Persistent bool
	// Env are the variables set inside.
	Env map[string]string
	// Limits bound what is used; zero is no limit of its own.
	Limits dsl.Limits
}

// Grant is a path that can be seen in a box, where it is outside.
type Grant struct {
	// Path is absolute, clean and without links.
	Path string
	// Writable allows changes.
	Writable bool
	// Dir says that it is a folder, with everything in it; else it is one file.
	Dir bool
	// Protected says that no policy asked for it: it lies in a writable grant and makes tools outside the box run code.
	Protected bool
	// Missing is a protected path that is not there. While the box lives a stub of that kind stands at its place.
	Missing bool
}

// Rule is one entry of net.allow.
type Rule struct {
	// Text is the rule as written.
	Text string
	// Host is the name in lower case without a trailing dot; empty for an address.
	Host string
	// Addr is the address of a rule that names one.
	Addr netip.Addr
	// Port is the port.
	Port uint16
}
