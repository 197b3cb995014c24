// Package cage is `kaged cage`.
package cage

import (
	"github.com/spf13/cobra"

	"kaged.dev/services/kaged/internal/cli/kit"
)

func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("cage", "Show cages, and try their policies")
	cmd.Long = "Cages, without a daemon: see what an agent may do, and try what a policy allows before you give it to an agent."
	cmd.AddCommand(cageShow(a, p), cageExec(a, p))
	return cmd
}
