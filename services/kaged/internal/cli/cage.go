package cli

import "github.com/spf13/cobra"

func (a App) cage(p *places) *cobra.Command {
	cmd := group("cage", "Try cage policies")
	cmd.Long = "Cages, without a daemon: try what a policy allows before you give it to an agent."
	cmd.AddCommand(a.cageExec(p))
	return cmd
}
