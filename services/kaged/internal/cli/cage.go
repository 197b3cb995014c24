package cli

import "github.com/spf13/cobra"

func (a App) cage(p *places) *cobra.Command {
	cmd := group("cage", "Show cages, and try their policies")
	cmd.Long = "Cages, without a daemon: see what an agent may do, and try what a policy allows before you give it to an agent."
	cmd.AddCommand(a.cageShow(p), a.cageExec(p))
	return cmd
}
