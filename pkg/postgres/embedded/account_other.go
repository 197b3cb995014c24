//go:build !linux

package embedded

import (
	"os"
	"os/exec"
)

// account is the user of the server process, on this system always the same user.
type account struct{}

func (account) String() string { return "as this user" }

func (account) apply(*exec.Cmd) {}

func start(cmd *exec.Cmd) error { return cmd.Start() }

func (account) own(string) error { return nil }

func accountsFor(paths) ([]account, error) {
	if os.Geteuid() == 0 {
		return nil, failed(nil, "PostgreSQL does not run as root; start kaged as an ordinary user.")
	}
	return []account{{}}, nil
}

func (account) folder(_ *exec.Cmd, path string) (name string, closeAfterStart func(), err error) {
	return path, func() {}, nil
}
