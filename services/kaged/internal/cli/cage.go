package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/dsl"
)

func (a App) cage(p *places) *cobra.Command {
	cmd := group("cage", "Show cages, and try their policies")
	cmd.Long = "Cages, without a daemon: see what an agent may do, and try what a policy allows before you give it to an agent."
	cmd.AddCommand(a.cageShow(p), a.cageExec(p))
	return cmd
}

// warnPersistent says of a policy, nil for no cage, that a cage of one command's own keeps no home.
func (a App) warnPersistent(policy *dsl.Cage) {
	if policy != nil && policy.State == "persistent" {
		fmt.Fprintln(a.Stderr, "kaged: state: persistent has no effect here: the home is gone with this cage")
	}
}
